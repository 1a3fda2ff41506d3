"""BLAS has one thread while a system or a classifier is fitted: on busy cores two wait for each other."""

import numpy as np
import pytest
import scipy.optimize
from threadpoolctl import threadpool_info, threadpool_limits

from tribit.paper.classification import RiskClassifier, matrices, matrix_label_frequency
from tribit.paper.systems import (
    ConditionalGradientCompletion,
    NuclearNormCompletion,
    UniversalSingularValueThresholding,
    conditional_gradient,
    nuclear_norm,
    singular_values,
)

LABELS = np.where(np.random.default_rng(0).random((90, 80)) < 0.6, 1, -1)
LARGE = np.tile(LABELS, (4, 4))


def classify():
    X = np.linspace(-1, 1, 20)[:, None]
    options = {"prior": 0.5, "loss": "logistic", "basis": "linear", "l2": 0.1}
    RiskClassifier("pn", **options).fit(X, np.where(X[:, 0] > 0.1, 1, -1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("place", "name", "fit"),
    [
        (scipy.optimize, "minimize", classify),
        (matrices, "svds", lambda: matrix_label_frequency(LABELS, n_entries=200, random_state=0)),
        (
            nuclear_norm,
            "shrink_singular_values",
            lambda: NuclearNormCompletion(max_iter=3).fit(LABELS),
        ),
        (
            conditional_gradient,
            "correct",
            lambda: ConditionalGradientCompletion(max_iter=3).fit(LABELS),
        ),
        (singular_values, "_top_vectors", lambda: UniversalSingularValueThresholding().fit(LARGE)),
    ],
)
def test_blas_has_one_thread_during_a_fit(place, name, fit, monkeypatch):
    function, during = getattr(place, name), []

    def look(*arguments, **options):
        during.extend(
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        )
        return function(*arguments, **options)

    monkeypatch.setattr(place, name, look)
    with threadpool_limits(2, user_api="blas"):
        fit()
    assert set(during) == {1}
