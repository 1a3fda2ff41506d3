"""Suggested weights of the risks: the proposal, the comparison with PN, the cap, and what cannot be suggested."""

from dataclasses import replace

import numpy as np
import pytest
from selection_data import low_rank, observed

from tribit import BinaryMatrixCompletion, Logistic, Observations, Probit
from tribit.errors import InvalidInputError
from tribit.model.risks import t_max
from tribit.paper.theory import mixture_coordinates
from tribit.selection import gammas, suggest_gammas
from tribit.selection.gammas import imputed_share
from tribit.simulate import low_rank_target, observe, quantise

LINK = Logistic(7.0)
M = low_rank_target((60, 50), 3, alpha=1.0, random_state=0)
LOOSE = {"rank": 20, "radius": 1.5, "l2": 0.0, "intercept": False, "rho": 0.6, "random_state": 0}


def seen(link, rho=0.6):
    return observe(quantise(M, link, random_state=1), rho, random_state=2)


def estimator(link=LINK, **options):
    return BinaryMatrixCompletion(link=link, **LOOSE | options)


@pytest.fixture(scope="module")
def found():
    return suggest_gammas(estimator(), seen(LINK))


def test_the_least_held_out_loss_decides(found):
    assert found.shares == pytest.approx((0.0, found.slope, found.slope / 3))
    assert found.t == found.shares[int(np.argmin(found.losses))]
    assert found.t > 0  # the ball is loose
    t, g = mixture_coordinates(found.gammas, rho=0.6)
    assert t == pytest.approx(found.t)
    assert g == pytest.approx(found.g) == pytest.approx(seen(LINK).base_rate)


def test_losses_and_slope_are_those_of_fits_without_the_held_out_entries():
    train, held_out = seen(LINK).split(0.3, random_state=0)
    model = estimator(rho=1 - train.density)
    found = suggest_gammas(model, train, held_out)
    losses = []
    for weights in found.weights:
        fit = estimator(
            rho=1 - train.density, gammas=weights, search=False, tol=1e-6, max_iter=2000
        ).fit(train)
        x = fit.decision_function(held_out.rows, held_out.columns)
        losses.append(np.mean(np.log1p(np.exp(-7.0 * held_out.labels * x))))
        if weights == (1.0, 0.0, 0.0):
            p = LINK.probability(x)
            slope = imputed_share(p, held_out.labels, np.ones(p.size))
    # Fits of the comparison stop early, at a tolerance that does not change the order.
    assert found.slope == pytest.approx(slope, abs=0.02)
    np.testing.assert_allclose(found.losses, losses, rtol=0.03)
    assert found.n_held_out == held_out.n_observed


def test_a_calibrated_model_imputes_nothing():
    table = observed(low_rank((80, 60)))
    model = BinaryMatrixCompletion(rank=2, l2=2.0, l2_intercept=1.0, random_state=0)
    found = suggest_gammas(model, table)
    assert found.t == 0.0
    assert found.gammas == (1.0, 0.0, 0.0)
    assert len(found.losses) == 1


def test_the_slope_is_never_shipped_without_the_comparison(monkeypatch):
    # A slope that is far too large, on a model that needs none.
    monkeypatch.setattr(gammas, "imputed_share", lambda *_: 1.0)
    found = suggest_gammas(
        BinaryMatrixCompletion(rank=2, l2=2.0, l2_intercept=1.0, random_state=0),
        observed(low_rank()),
    )
    assert found.shares == (0.0, 1.0, pytest.approx(1 / 3))
    assert found.t < 1.0
    assert found.losses[0] < found.losses[1]


@pytest.mark.parametrize("radius", [0.05, 0.2, 1.0])
def test_other_links_are_capped_where_entries_stop_being_convex(monkeypatch, radius):
    monkeypatch.setattr(gammas, "imputed_share", lambda *_: 0.9)
    link = Probit(0.1)
    found = suggest_gammas(estimator(link, radius=radius), seen(link))
    most = t_max(0.6, found.g, radius, link)
    assert found.t_max == pytest.approx(most, rel=0.1)
    # In a ball of ten standard deviations nothing is left to impute.
    shares = {0.05: (0.9, 0.3), 0.2: (most, most / 3), 1.0: ()}[radius]
    assert found.shares == pytest.approx((0.0, *shares), rel=0.1)


def test_values_of_a_fit_stand_for_auto():
    table = observed(low_rank())
    model = BinaryMatrixCompletion(random_state=0, n_candidates=6).fit(table)
    found = suggest_gammas(model, table)
    chosen = replace(model.fitted_.members[0].spec, gammas=(1.0, 0.0, 0.0))
    fixed = BinaryMatrixCompletion(random_state=0).set_params(
        **{name: getattr(chosen, name) for name in ("rank", "radius", "l2", "l2_intercept")},
        implicit_features=chosen.implicit_features,
        l2_implicit=chosen.l2_implicit,
        activity_floor=chosen.activity_floor,
    )
    assert found.losses[0] == pytest.approx(suggest_gammas(fixed, table).losses[0], rel=1e-6)


def test_the_table_is_the_curve(found):
    table = found.table()
    assert table["t"].tolist() == list(found.shares)
    assert table["difference"].tolist()[0] == 0.0
    np.testing.assert_allclose(table["g_pn"] + table["g_pu"] + table["g_nu"], 1.0)
    assert np.all(table["standard_error"][1:] > 0)
    assert str(found).startswith("gammas: (")
    assert repr(found) == str(found)
    assert len(found.to_frame()) == len(found.shares)


def test_the_same_seed_gives_the_same_bits(found):
    again = suggest_gammas(estimator(n_jobs=1), seen(LINK))
    assert again == found


def test_small_tables_are_compared_on_several_folds(found):
    # 1,200 entries: all fifths in turn.
    assert found.n_held_out == seen(LINK).n_observed


@pytest.mark.parametrize(
    ("model", "table", "held_out", "sentence"),
    [
        (estimator(), np.ones((5, 5)), None, "Likes and dislikes must both be observed"),
        (estimator(), np.eye(4) - np.eye(4)[::-1], np.eye(5) - np.eye(5)[::-1], "held_out has the"),
        (estimator(side_features=True), np.eye(4) - np.eye(4)[::-1], None, "needs PN alone"),
    ],
)
def test_what_cannot_be_suggested_is_said(model, table, held_out, sentence):
    tables = [
        None if each is None else Observations.from_matrix(each, zeros="unobserved")
        for each in (table, held_out)
    ]
    with pytest.raises(InvalidInputError, match=sentence):
        suggest_gammas(model, *tables)
