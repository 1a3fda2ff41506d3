"""A sparse matrix whose rows are on workers: it multiplies arrays that are here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.cluster import parts
from tribit.cluster.calls import Cluster
from tribit.data.axis import Positions

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class PartMatrix:
    """``M = diag(r) O diag(c)`` with some rows of O in each partition, or ``M'``.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    held : list of futures
        The rows of O of each partition as a sparse array.
    rows : list of array
        Which rows these are.
    of : tuple of two ints
        The shape of M.
    turned : bool
        Whether this is ``M'``.
    scales : pair of arrays or None
        r and c; None for 1.
    """

    cluster: Cluster
    held: Sequence[Any]
    rows: Sequence[Positions]
    of: tuple[int, int]
    turned: bool = False
    scales: tuple[Array | None, Array | None] = (None, None)
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of what this is."""
        return self.of[::-1] if self.turned else self.of

    @property
    def T(self) -> PartMatrix:  # noqa: N802 - as NumPy and SciPy call it
        """The transpose."""
        return replace(self, turned=not self.turned)

    def tocsr(self) -> PartMatrix:
        """Return the matrix itself: both products go by its rows."""
        return self

    def astype(self, dtype: Any) -> PartMatrix:  # noqa: ARG002
        """Return the matrix itself: its products are in float64."""
        return self

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(self.times(None, V)[1] if self.turned else self.times(V, None)[0])

    def times(self, V: Array | None, U: Array | None) -> tuple[Any, Any]:
        """Return ``M V`` and ``M' U`` of one pass, each where it is asked for."""
        r, c = self.scales
        of_V, of_U = self._pass(_scaled(c, V), _scaled(r, U))
        return _scaled(r, of_V), _scaled(c, of_U)

    def _pass(self, V: Array | None, U: Array | None) -> tuple[Any, Any]:
        """Return ``O V`` and ``O' U``."""
        cut = [None if U is None else U[rows] for rows in self.rows]
        found = self.cluster.map(parts.times, self.held, cut, V=V)
        if U is None:
            by_rows, columns = [own for own, _ in self.cluster.results(found)], None
        else:
            width = U.size // U.shape[0]
            by_rows, columns = self.cluster.own_and_total(found, 8 * self.of[1] * width)
        if V is None:
            return None, columns
        whole = np.zeros((self.of[0], *V.shape[1:]))
        for rows, own in zip(self.rows, by_rows, strict=True):
            whole[rows] = own
        return whole, columns

    def toarray(self) -> Array:
        """Return a matrix of very few rows or columns as an array."""
        if self.shape[1] <= self.shape[0]:
            return self @ np.eye(self.shape[1])
        return (self.T @ np.eye(self.shape[0])).T

    def matvec(self, v: Array) -> Array:
        """Return ``M v``; with this and ``rmatvec`` it is a linear operator to SciPy."""
        return self @ np.ravel(v)

    def rmatvec(self, u: Array) -> Array:
        """Return ``M' u``."""
        return self.T @ np.ravel(u)


def _scaled(scale: Array | None, given: Array | None) -> Array | None:
    """Return an array with its rows scaled."""
    if scale is None or given is None:
        return given
    return np.asarray(scale * given if given.ndim == 1 else scale[:, None] * given)
