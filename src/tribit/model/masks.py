"""The mask of what was observed as sparse matrices that hold each index once: what implicit features are made of.

A matrix ``diag(s) O`` has one number for each row, so that its entries follow from the places of O alone. Both sides of
a model, both orientations, every ridge and every ``activity_floor`` share these places; entries are made from them in
the type that a product asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Number of entries up to which their numbers are kept in every type. Beyond it those of the type asked for last are: a
#: fit in single precision needs double precision at its ends alone, where 20 million entries in both would take a
#: gigabyte.
MANY = 2**21


class Pattern(NamedTuple):
    """Places of the entries of a sparse matrix by rows, as SciPy has them."""

    offsets: Places
    columns: Places


@dataclass(frozen=True, eq=False)
class ScaledMask:
    """``M = diag(s) O`` with O a 0/1 matrix, and its transpose.

    Attributes
    ----------
    by_rows, by_columns : Pattern
        Places of the entries of O and of its transpose.
    scale : array of shape (n,)
        s.
    """

    by_rows: Pattern
    by_columns: Pattern
    scale: Array
    _kept: dict[tuple[str, bool], sp.csr_array] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of M."""
        return self.by_rows.offsets.size - 1, self.by_columns.offsets.size - 1

    @property
    def nnz(self) -> int:
        """Number of entries of M, under the name that sparse arrays have for it."""
        return int(self.by_rows.columns.size)

    def matrix(self, dtype: Any) -> sp.csr_array:
        """Return M in a type of numbers."""
        return self._in(np.dtype(dtype), turned=False)

    def transposed(self, dtype: Any) -> sp.csr_array:
        """Return ``M'`` in a type of numbers."""
        return self._in(np.dtype(dtype), turned=True)

    def _in(self, dtype: np.dtype[Any], *, turned: bool) -> sp.csr_array:
        found = self._kept.get((dtype.name, turned))
        if found is not None:
            return found
        offsets, columns = self.by_columns if turned else self.by_rows
        if columns.size > MANY:
            for name, way in list(self._kept):
                if name != dtype.name:
                    self._kept.pop((name, way), None)  # another thread may have been here
        scale = self.scale.astype(dtype)
        entries = scale[columns] if turned else np.repeat(scale, np.diff(offsets))
        shape = self.shape[::-1] if turned else self.shape
        found = sp.csr_array((entries, columns, offsets), shape=shape)
        self._kept[dtype.name, turned] = found
        return found


def scaled_masks(observations: Observations) -> tuple[ScaledMask, ScaledMask]:
    """Return the masks of rows and of columns, each row (each column) over the root of its number of entries."""
    counts = observations.counts
    kind = np.int32 if max(*observations.shape, observations.n_observed) < 2**31 else np.int64
    offsets = np.append(0, np.cumsum(counts[0])).astype(kind)
    # One byte for each entry: it is the places that are turned.
    ones = np.ones(observations.n_observed, dtype=np.int8)
    own = sp.csr_array((ones, observations.columns.astype(kind), offsets), shape=observations.shape)
    turned = own.T.tocsr()
    by_rows, by_columns = Pattern(own.indptr, own.indices), Pattern(turned.indptr, turned.indices)
    rows, columns = (1.0 / np.sqrt(np.maximum(each, 1)) for each in counts)
    return ScaledMask(by_rows, by_columns, rows), ScaledMask(by_columns, by_rows, columns)
