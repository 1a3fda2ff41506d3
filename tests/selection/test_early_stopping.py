"""Fits of candidates that end when held-out entries see no change."""

import numpy as np
import pytest

from tribit import Observations
from tribit.backends import Arithmetic
from tribit.model.spec import ModelSpec
from tribit.selection import trials as module
from tribit.selection.folds import make_folds
from tribit.selection.trials import Options, fit_from
from tribit.solvers import Stopping
from tribit.solvers.loop import CONVERGED, UNCHANGED, WATCH_INTERVAL

SETTINGS = ModelSpec(rank=3, l2=1.0, l2_intercept=1.0)


@pytest.fixture(scope="module")
def fold():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(80, 3)) @ draws.normal(size=(3, 70))
    A = np.where(
        draws.random(X.shape) < 0.5, np.where(X + draws.logistic(size=X.shape) > 0, 1, -1), 0
    )
    return make_folds(Observations.from_matrix(A), None, np.random.default_rng(1))[0]


def fitted(fold, *rest):
    draws = np.random.default_rng(2)
    return fit_from(
        fold.train, SETTINGS, Options(Arithmetic("float32", 1, "auto")), {}, draws, *rest
    )


def held_out_loss(factors, fold):
    x = factors.at(fold.held_out.rows, fold.held_out.columns)
    return np.mean(np.logaddexp(0.0, -fold.held_out.labels * x))


def test_a_watched_fit_ends_earlier_at_the_same_held_out_loss(fold):
    whole, far = fitted(fold, Stopping(300, 1e-9))
    watched, near = fitted(fold, Stopping(300, 1e-9), fold)
    assert far.stop_reason == CONVERGED
    assert near.stop_reason == UNCHANGED
    assert near.n_iter < far.n_iter
    assert near.n_iter % WATCH_INTERVAL == 0
    assert held_out_loss(watched, fold) == pytest.approx(held_out_loss(whole, fold), rel=2e-3)


@pytest.mark.parametrize("many", [10, 10**6])
def test_only_fits_of_large_tables_are_watched(monkeypatch, fold, many):
    monkeypatch.setattr(module, "TENTHS_FROM", many)
    trials = module.Trials(
        [fold],
        Options(Arithmetic("float32", 1, "auto")),
        scoring="log_loss",
        most=None,
        deadline=None,
    )
    assert trials.early_stopping_fold(fold) is (fold if many == 10 else None)
