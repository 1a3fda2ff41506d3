"""Lists that a GPU makes beside those of the CPU."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from tribit import BinaryMatrixCompletion
from tribit.model import ease
from tribit.ranking import CandidateRanker

pytest.importorskip("torch", reason="no GPU: torch cannot be imported")
from tribit.backends.cuda.regression import DeviceAlgebra


def model_of(shape, seed=0, whole=False):
    """Return a fitted model with drawn factors; whole numbers have many equal scores."""
    rng = np.random.default_rng(seed)
    A = np.where(rng.random(shape) < 0.3, rng.choice([-1, 1], shape), 0)
    fixed = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "search": False, "random_state": 0}
    model = BinaryMatrixCompletion(max_iter=50, **fixed).fit(A)
    if whole:
        U, V = (rng.integers(-2, 3, (size, 2)).astype(np.float32) for size in shape)
        model.row_factors_[:], model.column_factors_[:] = U, V
        model.row_intercepts_[:], model.column_intercepts_[:] = 0, 0
    return model, A


@pytest.mark.parametrize("shape", [(40, 60), (300, 7), (4, 3)])
@pytest.mark.parametrize("whole", [True, False], ids=["ties", "drawn"])
@pytest.mark.parametrize("n", [1, 5, 100])
def test_lists_are_those_of_the_cpu(shape, whole, n):
    model, A = model_of(shape, whole=whole)
    for rows in (range(shape[0]), [shape[0] - 1, 0]):
        for seen in (A, None, sp.csr_array(np.ones(shape, dtype=int))):
            model.device = "cpu"
            here = model.recommend(rows, n, exclude_seen=seen)
            model.device = "cuda"
            there = model.recommend(rows, n, exclude_seen=seen)
            assert there.positions.tolist() == here.positions.tolist()
            np.testing.assert_allclose(there.scores.values, here.scores.values, atol=1e-12)
            np.testing.assert_allclose(
                there.probabilities.values, here.probabilities.values, atol=1e-12
            )


@pytest.mark.parametrize("l2", [3.0, "auto"])
def test_a_ranker_is_that_of_the_cpu(l2):
    _, A = model_of((80, 30))
    here, there = (
        CandidateRanker(l2=l2, device=device, random_state=0).fit(A) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.l2_, here.l2_, rtol=1e-9)
    np.testing.assert_allclose(there.coefficients_, here.coefficients_, rtol=1e-6)
    rates = (np.concatenate(each.log_rates(np.arange(80))) for each in (there, here))
    np.testing.assert_allclose(*rates, rtol=1e-6, atol=1e-9)
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_allclose(again.log_rates(np.arange(3)), there.log_rates(np.arange(3)))


def test_beyond_its_number_of_columns_a_gpu_solves_as_the_cpu_does(monkeypatch):
    _, A = model_of((80, 30))
    monkeypatch.setattr(DeviceAlgebra, "most_columns", 20)
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 20)
    here, there = (
        CandidateRanker(l2=3.0, device=device, random_state=0).fit(A) for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(there.coefficients_, here.coefficients_)
