"""Lists that a GPU makes beside those of the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp

from tribit import BinaryMatrixCompletion


def model_of(shape, seed=0, whole=False):
    """Return a fitted model with drawn factors; whole numbers have many equal scores."""
    rng = np.random.default_rng(seed)
    A = np.where(rng.random(shape) < 0.3, rng.choice([-1, 1], shape), 0)
    fixed = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "calibration": None, "random_state": 0}
    model = BinaryMatrixCompletion((1, 0, 0), implicit_features=False, max_iter=50, **fixed).fit(A)
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
            np.testing.assert_array_equal(there.positions, here.positions)
            np.testing.assert_allclose(there.scores, here.scores, atol=1e-12)
            np.testing.assert_allclose(there.probabilities, here.probabilities, atol=1e-12)
