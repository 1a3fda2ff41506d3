"""Products of features on several threads: the bits of one thread."""

import numpy as np
import pytest
import scipy.sparse as sp

from tribit.backends import threaded_block as module
from tribit.backends.threaded_block import ThreadedBlock
from tribit.model.design import Block


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("entries", [40, 700, 10**6])
def test_products_have_the_bits_of_one_thread(monkeypatch, dtype, n_jobs, entries):
    monkeypatch.setattr(module, "PART_ENTRIES", entries)
    draws = np.random.default_rng(0)
    dense = (draws.random((150, 90)) < 0.15) * draws.normal(size=(150, 90))
    dense[3], dense[70:80] = draws.normal(size=90), 0.0  # a long row, and rows without entries
    block = Block(sp.csr_array(dense), draws.normal(size=150), draws.normal(size=90), 2.0)
    threaded = ThreadedBlock.of(block, n_jobs)
    assert (threaded.l2, threaded.width) == (2.0, 90)
    for of, size in (("times", 90), ("transposed_times", 150), ("squares_times", 150)):
        for shape in ((size, 5), (size, 1), (size,)):
            z = draws.normal(size=shape).astype(dtype)
            found = getattr(threaded, of)(z)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, getattr(block, of)(z))
    whole = dense + np.outer(block.shift, block.means)
    z = draws.normal(size=(90, 4))
    np.testing.assert_allclose(threaded.times(z), whole @ z, rtol=1e-12, atol=1e-12)
