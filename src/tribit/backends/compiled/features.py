"""Blocks of features whose products with parts are compiled, and done by several threads.

SciPy's products of sparse matrices keep the interpreter's lock, so that threads wait for one another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.compiled.blocks import cut
from tribit.backends.compiled.products import sparse_times
from tribit.backends.threads import ordered_map
from tribit.model.design import Block

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class CompiledBlock(Block):
    """Features of rows, ``S = M + h m'``; see :class:`tribit.model.design.Block`.

    Attributes
    ----------
    n_jobs : int
        Threads; the products have the same bits for any number.
    """

    n_jobs: int = 1

    @classmethod
    def of(cls, block: Block, n_jobs: int) -> CompiledBlock:
        """Return the same block with compiled products."""
        own = {each.name: getattr(block, each.name) for each in fields(Block)}
        return cls(**own, n_jobs=n_jobs)

    def _product(self, matrix: sp.csr_array, dense: Array, shift: Array, base: Array) -> Array:
        """Return ``M z + h b'``, or the same of the transpose."""
        if dense.ndim == 1:
            return super()._product(matrix, dense, shift, base)
        dense, base = np.ascontiguousarray(dense), np.ascontiguousarray(base)
        out = np.empty((matrix.shape[0], dense.shape[1]), dtype=dense.dtype)
        # By the offsets, which a mask keeps: its entries in a type that is not needed for now may be let go of.
        key = f"blocks {id(matrix.indptr)}"
        known, blocks = self.kept.get(key, (None, []))
        if known is not matrix.indptr:
            blocks = cut(matrix.indptr)
            self.kept[key] = matrix.indptr, blocks

        def run(block: tuple[int, int]) -> None:
            arrays = matrix.indptr, matrix.indices, matrix.data
            sparse_times(*block, *arrays, 0, dense, shift, base, out)

        for _ in ordered_map(run, blocks, self.n_jobs):
            pass
        return out
