"""Expected gains of a label: each beside the difference that it stands for."""

import numpy as np
import pytest
from scipy.special import entr, expit

from tribit.estimates.gains import (
    GOALS,
    Posterior,
    fall_of_log_loss,
    fall_of_variance,
    rise_of_list,
)

RNG = np.random.default_rng(2)
N, M, K = 3, 9, 2
A = RNG.normal(size=(N, K, K))
POSTERIOR = Posterior(
    discriminations=RNG.normal(size=(M, K)),
    scores=RNG.normal(size=(N, M)),
    covariances=A @ A.transpose(0, 2, 1) + 0.1 * np.eye(K),
    unknown=RNG.random((N, M)) < 0.7,
    weights=np.array([1, 2, 0, 1, 1, 3, 1, 1, 1]) / 11,
    list_length=3,
)


def asked(j):
    rows = np.flatnonzero(POSTERIOR.unknown[:, j])
    return rows, POSTERIOR.asked(rows, np.full(rows.size, j))


def variance(posterior, i):
    """The variance of the mean of a row: of its expectation over abilities, and of the labels given these."""
    p = expit(posterior.scores[i])
    w = np.where(posterior.unknown[i], p * (1 - p), 0) * posterior.weights
    v = posterior.discriminations
    return w @ v @ posterior.covariances[i] @ v.T @ w + w @ posterior.weights


def log_loss(posterior, i):
    p = expit(posterior.scores[i])
    spread = np.diag(
        posterior.discriminations @ posterior.covariances[i] @ posterior.discriminations.T
    )
    return (posterior.unknown[i] * (entr(p) + entr(1 - p) + p * (1 - p) * spread / 2)).sum()


@pytest.mark.parametrize(
    ("gain", "loss"), [(fall_of_variance, variance), (fall_of_log_loss, log_loss)]
)
def test_the_gain_is_the_fall_of_the_loss_once_the_cell_is_known(gain, loss):
    found = gain(POSTERIOR)
    for j in range(M):
        rows, after = asked(j)
        for i in rows:
            assert found[i, j] == pytest.approx(loss(POSTERIOR, i) - loss(after, i))


def test_variances_of_means_are_those_by_hand():
    assert np.allclose(POSTERIOR.variances_of_means, [variance(POSTERIOR, i) for i in range(N)])


def test_covariances_are_those_of_one_more_label_of_its_curvature():
    rows, after = asked(0)
    v, i = POSTERIOR.discriminations[0], rows[0]
    p = expit(POSTERIOR.scores[i, 0])
    precision = np.linalg.inv(POSTERIOR.covariances[i]) + p * (1 - p) * np.outer(v, v)
    assert np.allclose(after.covariances[i], np.linalg.inv(precision))
    assert not after.unknown[i, 0]


def test_a_list_gains_by_both_labels_of_the_cell():
    found = rise_of_list(POSTERIOR)
    v = POSTERIOR.discriminations
    for i in range(N):
        unknown, x = np.flatnonzero(POSTERIOR.unknown[i]), POSTERIOR.scores[i]
        now = np.sort(expit(x[unknown]))[-3:].sum()
        for j in unknown:
            p, total = expit(x[j]), 0.0
            reach = v @ POSTERIOR.covariances[i] @ v[j]
            for y, chance in ((1, p), (0, 1 - p)):
                moved = expit(x + (y - p) * reach / (1 + p * (1 - p) * reach[j]))
                moved[j] = y
                total += chance * np.sort(moved[unknown])[-3:].sum()
            assert found[i, j] == pytest.approx(total - now)
    assert not found[~POSTERIOR.unknown].any()


def test_every_goal_has_its_gain():
    assert set(GOALS) == {"means", "log_loss", "list"}
