"""Item response model: predictions that leave a label out against brute force, and simulated abilities."""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from tribit.estimates.item_response import Abilities, _curvatures, fit_items


def simulated(n=60, m=40, share=0.5, seed=0):
    """Return probabilities of a table with two abilities, and the labels of its seen cells."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + rng.normal(size=m)
    x += rng.normal(size=(n, 1)) * rng.normal(size=m)
    p = expit(1.5 * x)
    labels = np.where(rng.random((n, m)) < p, 1, -1) * (rng.random((n, m)) < share)
    return p, labels.astype(np.int8)


def test_a_prediction_leaves_its_own_label_out():
    """The posterior without a cell, from the terms of the others, gives the same prediction."""
    _, labels = simulated()
    items = fit_items(sp.csr_array(labels[10:]), 2, np.random.default_rng(0))
    rows = sp.csr_array(labels[:3])
    abilities = items.abilities(rows)
    p = items.predict(abilities, rows)
    prior = np.linalg.inv(items.prior_covariance)
    for i, j in zip(*rows.nonzero(), strict=True):
        others = [each for each in np.flatnonzero(labels[i]) if each != j]
        omega = abilities.curvatures.toarray()[i]
        precision = prior + sum(omega[k] * items.moments[k][1:, 1:] for k in others)
        linear = prior @ items.prior_mean + sum(
            0.5 * labels[i, k] * items.means[k][1:] - omega[k] * items.moments[k][0, 1:]
            for k in others
        )
        mean = np.linalg.solve(precision, linear)[None]
        nothing = sp.csr_array((1, labels.shape[1]), dtype=np.int8)
        left_out = Abilities(mean, precision[None], np.linalg.inv(precision)[None], nothing)
        assert np.isclose(items.predict(left_out, nothing)[0, j], p[i, j], rtol=1e-10)


def test_a_prediction_is_nearly_that_of_the_row_without_the_cell():
    _, labels = simulated()
    items = fit_items(sp.csr_array(labels[10:]), 2, np.random.default_rng(0))
    row = sp.csr_array(labels[:1])
    p = items.predict(items.abilities(row), row)[0]
    for j in np.flatnonzero(labels[0]):
        without = labels[:1].copy()
        without[0, j] = 0
        without = sp.csr_array(without)
        assert abs(items.predict(items.abilities(without), without)[0, j] - p[j]) < 0.02


def test_new_rows_of_a_simulated_table_are_predicted():
    truth, labels = simulated(150, 60, 0.6)
    items = fit_items(sp.csr_array(labels[50:]), 2, np.random.default_rng(0))
    rows = sp.csr_array(labels[:50])
    p = items.predict(items.abilities(rows), rows)
    assert np.corrcoef(p.ravel(), truth[:50].ravel())[0, 1] > 0.85
    assert abs(p.mean() - truth[:50].mean()) < 0.02


def test_a_row_without_cells_is_predicted_by_the_prior():
    _, labels = simulated()
    items = fit_items(sp.csr_array(labels), 1, np.random.default_rng(0))
    nothing = sp.csr_array((2, labels.shape[1]), dtype=np.int8)
    p = items.predict(items.abilities(nothing), nothing)
    assert np.array_equal(p[0], p[1])
    assert abs(p.mean() - (labels > 0).sum() / (labels != 0).sum()) < 0.05


def test_sparse_and_dense_tables_have_the_same_curvatures():
    """Empty columns beside a table make it so sparse that products are formed one at a time."""
    _, labels = simulated()
    narrow, wide = (
        sp.csr_array(np.pad(labels, ((0, 0), (0, empty)))) for empty in (0, 50 * labels.shape[1])
    )
    items = fit_items(narrow, 2, np.random.default_rng(0))
    abilities = items.abilities(narrow)
    moments = np.pad(items.moments, ((0, 50 * labels.shape[1]), (0, 0), (0, 0)))
    found = [_curvatures(each, abilities, moments[: each.shape[1]]) for each in (narrow, wide)]
    assert np.allclose(found[0].data, found[1].data, rtol=1e-12)
    f = np.column_stack([np.ones(60), abilities.means])
    i, j = (places[7] for places in narrow.nonzero())
    second = np.outer(f[i], f[i])
    second[1:, 1:] += abilities.covariances[i]
    s = np.sqrt((second * items.moments[j]).sum())
    assert np.isclose(found[0].data[7], np.tanh(s / 2) / (2 * s))
