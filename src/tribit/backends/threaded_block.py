"""Blocks of features whose products are made by several threads, each of which takes some rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import ordered_map
from tribit.model.design import Block

Array = NDArray[np.floating[Any]]

#: Entries of a part of the rows: SciPy's products let the interpreter's lock go, and a part takes some milliseconds.
PART_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class ThreadedBlock(Block):
    """Features of rows, ``S = M + h m'``; see :class:`tribit.model.design.Block`.

    Attributes
    ----------
    n_jobs : int
        Threads; the products have the same bits for any number.
    """

    n_jobs: int = 1

    @classmethod
    def of(cls, block: Block, n_jobs: int) -> Self:
        """Return the same block with products on several threads."""
        own = {each.name: getattr(block, each.name) for each in fields(Block)}
        return cls(**own, n_jobs=n_jobs)

    def _product(self, matrix: sp.csr_array, dense: Array, shift: Array, base: Array) -> Array:
        """Return ``M z + h b'``, or the same of the transpose."""
        n_parts = matrix.nnz // PART_ENTRIES
        if dense.ndim == 1 or n_parts < 2 or self.n_jobs < 2:
            return super()._product(matrix, dense, shift, base)
        ends = np.linspace(0, matrix.nnz, n_parts + 1)[1:-1]
        cuts = [0, *np.searchsorted(matrix.indptr, ends).tolist(), matrix.shape[0]]
        out = np.empty((matrix.shape[0], dense.shape[1]), dtype=dense.dtype)

        def run(part: tuple[int, int]) -> None:
            first, last = part
            offsets = matrix.indptr[first : last + 1]
            here, rows = slice(offsets[0], offsets[-1]), slice(first, last)
            # The constructor would copy parts of larger arrays.
            some = sp.csr_array((last - first, matrix.shape[1]), dtype=matrix.dtype)
            some.data, some.indices = matrix.data[here], matrix.indices[here]
            some.indptr = offsets - offsets[0]
            out[rows] = super(ThreadedBlock, self)._product(some, dense, shift[rows], base)

        for _ in ordered_map(run, pairwise(cuts), self.n_jobs):
            pass
        return out
