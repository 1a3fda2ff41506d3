"""The linear algebra of :mod:`tribit.model.ease` on a device: counts, inverses, products with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from tribit.backends.cuda.device import place
from tribit.model.binary_matrices import BinaryRows
from tribit.model.ease import Algebra

Tensor: TypeAlias = torch.Tensor
#: Numbers of a dense block of rows.
BLOCK = 2**27


class DeviceAlgebra(Algebra):
    """Counts and inverses on a GPU."""

    #: Most columns of which the inverse is computed: 13 GB at this number, and three times that on the way.
    most_columns = 40_000

    def gram(self, F: sp.csr_array) -> Tensor:
        """Return ``F'F`` of a 0/1 matrix: counts, exact in any order of summation up to 2^24 rows."""
        n = F.shape[1]
        total = torch.zeros((n, n), dtype=torch.float32, device=place())
        with _tf32():  # 0 and 1 have all their digits there, and sums are in float32
            for block in _blocks(BinaryRows.of(F), torch.float32):
                total.addmm_(block.T, block)
        return total

    def inverse(self, counts: Tensor, l2: float) -> Tensor:
        """Return ``(counts + l2 I)^-1`` in float64, by Cholesky."""
        whole = counts.double()
        whole.diagonal().add_(l2)
        return torch.cholesky_inverse(torch.linalg.cholesky(whole))

    def product(self, F: BinaryRows, inverse: Tensor) -> NDArray[np.float64]:
        """Return ``F P``, as an array of NumPy."""
        found = np.empty(F.shape)
        start = 0
        for block in _blocks(F, torch.float64):
            stop = start + block.shape[0]
            found[start:stop] = (block @ inverse).cpu().numpy()
            start = stop
        return found

    def to_numpy(self, array: Tensor) -> NDArray[np.float64]:
        """Return counts or an inverse as an array of NumPy."""
        return np.asarray(array.cpu().numpy(), dtype=np.float64)


def _blocks(F: BinaryRows, dtype: torch.dtype) -> Iterator[Tensor]:
    """Return the rows of a 0/1 matrix as dense tensors, some at a time."""
    step = max(1, BLOCK // max(F.shape[1], 1))
    rows, columns = (
        torch.from_numpy(np.asarray(each, dtype=np.int64)).to(place())
        for each in (F.rows, F.columns)
    )
    starts = range(0, F.shape[0], step)
    ends = np.searchsorted(F.rows, [*starts, F.shape[0]]).tolist()
    for start, first, last in zip(starts, ends[:-1], ends[1:], strict=True):
        height = min(step, F.shape[0] - start)
        block = torch.zeros((height, F.shape[1]), dtype=dtype, device=place())
        block[rows[first:last] - start, columns[first:last]] = 1.0
        yield block


@contextmanager
def _tf32() -> Iterator[None]:
    """Let products of float32 use the tensor cores inside."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
