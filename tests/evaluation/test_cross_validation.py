import json
from dataclasses import replace

import numpy as np
import pytest

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    cross_validate,
    evaluate,
)
from tribit.evaluation import cross_validation as module
from tribit.ranking import CandidateRanker
from tribit.ranking.rate_ranker import fit_ranker
from tribit.solvers.loop import INTERRUPTED

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 20))
A = np.where(RNG.random(X.shape) < 0.5, np.sign(X), 0).astype(int)
A[:, 19] = 0
A[:2, 19] = 1  # a column that loses all of its entries in some fold
MODEL = BinaryMatrixCompletion(
    rank=2,
    l2=1.0,
    l2_intercept=1.0,
    search=False,
    n_jobs=1,
    random_state=0,
)


def test_every_entry_is_held_out_once_and_predicted_by_a_fit_without_it(monkeypatch):
    parts = []

    def spy(model, test, train, **options):
        parts.append((model, test, train))
        return evaluate(model, test, train, **options)

    monkeypatch.setattr(module, "evaluate", spy)
    found = cross_validate(MODEL, A, 4, 3)
    whole = Observations.from_matrix(A)
    keys = [test.rows * 20 + test.columns for _, test, _ in parts]
    np.testing.assert_array_equal(np.sort(np.concatenate(keys)), whole.rows * 20 + whole.columns)
    likes = [test.n_likes for _, test, _ in parts]
    assert max(likes) - min(likes) <= 1
    for model, test, train in parts:
        assert train.n_observed + test.n_observed == whole.n_observed
        assert train.shape == test.shape == whole.shape
        again = BinaryMatrixCompletion(**MODEL.get_params()).fit(train)
        np.testing.assert_array_equal(again.complete(), model.complete())
    assert not hasattr(MODEL, "row_factors_")
    accuracies = [each.accuracy for each in found.evaluations]
    assert found.means["accuracy"] == pytest.approx(np.mean(accuracies))
    assert found.standard_errors["accuracy"] == pytest.approx(np.std(accuracies, ddof=1) / 2)


def test_the_folds_are_drawn_by_random_state():
    first, again, other = (cross_validate(MODEL, A, 3, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_features_and_a_ranker_go_to_every_fit():
    kinds = np.eye(3)[np.arange(20) % 3]
    model = BinaryMatrixCompletion(**{**MODEL.get_params(), "side_features": True, "l2_side": 1.0})
    found = cross_validate(
        model, A, 2, 0, column_features=kinds, ranker=CandidateRanker(random_state=0), n=3
    )
    plain = cross_validate(MODEL, A, 2, 0, n=3)
    assert found.means["log_loss"] != pytest.approx(plain.means["log_loss"], abs=1e-6)
    assert all(each.ranked and each.lists.n == 3 for each in found.evaluations)


def test_a_fitted_ranker_cannot_be_fitted_to_each_fold():
    ranker = fit_ranker(Observations.from_matrix(A), random_state=0)
    with pytest.raises(InvalidTypeError, match="RateRanker; pass a CandidateRanker"):
        cross_validate(MODEL, A, 2, 0, ranker=ranker)


@pytest.mark.parametrize("how", ["in the evaluation", "in the fit"])
def test_an_interrupt_keeps_the_folds_that_were_done(how, monkeypatch):
    calls = []

    def stopped(model, *args, **options):
        calls.append(model)
        if how == "in the evaluation" and len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(model, *args, **options)

    class Fit(BinaryMatrixCompletion):
        def fit(self, *args, **options):
            super().fit(*args, **options)
            if how == "in the fit" and len(calls) == 2:
                self.record_ = replace(self.record_, stop_reason=INTERRUPTED)
            return self

    monkeypatch.setattr(module, "evaluate", stopped)
    monkeypatch.setattr(Fit, "__init__", BinaryMatrixCompletion.__init__)
    found = cross_validate(Fit(**MODEL.get_params()), A, 5, 0)
    assert found.interrupted
    assert len(found.evaluations) == 2
    assert "in 2 of 5 folds, interrupted" in str(found)


def test_an_interrupt_before_any_fold_is_done_is_passed_on(monkeypatch):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "evaluate", stopped)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(MODEL, A, 5, 0)


def test_it_is_printed_and_written():
    found = cross_validate(MODEL, A, 3, 0)
    mean, error = found.means["auc"], found.standard_errors["auc"]
    assert f"{mean:.4f} ± {error:.4f}" in str(found)
    assert str(found).startswith(f"{np.count_nonzero(A)} entries in 3 folds")
    beside = [each.baselines["base rate"].measures["log_loss"] for each in found.evaluations]
    assert f"log-loss {np.mean(beside):.4f}" in found.facts()["baseline: base rate"]
    again = json.loads(json.dumps(found.to_dict()))
    assert again["means"]["auc"] == mean
    assert len(again["evaluations"]) == 3


def test_likes_alone_are_ranked():
    model = BinaryMatrixCompletion(**{**MODEL.get_params(), "gammas": (0, 1, 0), "rho": 0.0})
    likes = Observations.from_matrix(A > 0, zeros="unobserved")
    found = cross_validate(model.set_params(radius=None), likes, 3, 0)
    assert "AUC among unseen cells" in found.facts()
    assert "accuracy" not in found.facts()


@pytest.mark.parametrize("folds", [1, 2.5, 10**6])
def test_the_number_of_folds_is_checked(folds):
    with pytest.raises(InvalidInputError, match="folds must be a whole number from 2 to"):
        cross_validate(MODEL, A, folds)
