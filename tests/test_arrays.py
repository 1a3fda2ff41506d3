import numpy as np
import pytest

from tribit.arrays import dot


@pytest.mark.parametrize("shape", [(0,), (5,), (300_000,), (3000, 100)])
def test_products_of_single_precision_are_summed_in_double(shape):
    draws = np.random.default_rng(0)
    left, right = (1.0 + draws.random(shape, dtype=np.float32) for _ in range(2))
    exact = np.sum(left.astype(np.float64) * right)
    assert dot(left, right) == pytest.approx(exact, rel=1e-6)
    assert dot(left.astype(np.float64), right) == pytest.approx(exact, rel=1e-12)


def test_rounding_of_single_precision_does_not_grow_with_the_number_of_products():
    """Equal numbers, whose rounding errors have one sign: 1e-4 of the sum where all is added in single precision."""
    equal = np.full(2**20, 1.1, dtype=np.float32)
    assert dot(equal, equal) == pytest.approx(equal.size * float(equal[0]) ** 2, rel=1e-5)
