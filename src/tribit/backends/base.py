"""What the kernels share: the interface, and products of columns."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tribit.backends.forms import Form
from tribit.backends.layout import Layout, layouts
from tribit.backends.threads import ordered_map
from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Products of columns are kept for a whole pass up to this many bytes, and made as needed above it.
PRODUCTS_BYTES = 64 * 2**20


@dataclass(frozen=True)
class RowModels:
    """A quadratic model of the risk of each row, at the row's current place.

    ``values`` are NaN where not asked for. ``packed`` holds the upper triangles of the curvatures, by rows: exact
    ones, ``sum_j max(l''_ij, 0) q_j q_j'``, or upper bounds of them. ``tightness`` is the mean over all entries
    of curvature / bound, 1 where no bound is known.
    """

    values: Array
    gradients: Array
    packed: Array
    tightness: float = 1.0


class Panel(Protocol):
    """A run of rows of P against all of Q: the unit of work of one thread."""

    rows: slice

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64, at ``P`` for these rows."""
        ...

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:
        """Return a model of each row in its first ``free`` columns; bounds for curvature unless ``exact``."""
        ...


class Kernel(ABC):
    """Exact sums of one risk over all entries of ``X = P Q'``.

    ``side`` and ``other`` hold the observed entries by rows and by columns, as the kernel wants them.
    """

    def __init__(
        self, side: Any, other: Any, form: Form, dtype: np.dtype[Any], n_jobs: int
    ) -> None:
        self.side, self.other, self.form = side, other, form
        self.shape: tuple[int, int] = side.shape
        self.dtype, self.n_jobs = dtype, n_jobs

    @classmethod
    def build(
        cls,
        observations: Observations,
        form: Form,
        plus: Array,
        minus: Array,
        *,
        dtype: str,
        n_jobs: int,
    ) -> Self:
        """Return the kernel of a form with correction weights ``plus``, ``minus`` on the observed entries."""
        kind = np.dtype(dtype)
        a, b = form.weights(plus, minus)
        weights = a.astype(kind), b.astype(kind)
        bounds = form.correct_bound(plus, minus).astype(kind) if form.bounded else None
        side, other = (
            cls.arrange(layout, weights, bounds) for layout in layouts(cls.layout, observations)
        )
        return cls(side, other, form, kind, n_jobs)

    #: How the entries are ordered.
    layout: ClassVar[type[Layout]]

    @classmethod
    @abstractmethod
    def arrange(cls, layout: Any, weights: tuple[Array, Array], bounds: Array | None) -> Any:
        """Return the observed entries of one orientation with their weights, in the order of the layout."""

    @property
    def transposed(self) -> Self:
        """The same risk with the roles of P and Q exchanged."""
        return type(self)(self.other, self.side, self.form, self.dtype, self.n_jobs)

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether ``models`` knows upper bounds of the curvature."""

    @abstractmethod
    def panels(self, Q: Array) -> Sequence[Panel]:
        """Return the panels of rows against a fixed ``Q``; their number does not depend on threads."""

    @abstractmethod
    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""

    def value(self, P: Array, Q: Array) -> float:
        """Return the risk in float64."""
        P = np.asarray(P, dtype=self.dtype)
        return float(
            sum(
                float(np.sum(values))
                for values in self.map(lambda panel: panel.values(P[panel.rows]), self.panels(Q))
            )
        )

    def largest(self, P: Array, Q: Array) -> float:
        """Return ``max |P Q'|`` over all entries."""
        P, Q = np.asarray(P, dtype=self.dtype), np.asarray(Q, dtype=self.dtype)

        def run(start: int) -> float:
            largest = 0.0
            for left in range(0, Q.shape[0], 1024):
                tile = P[start : start + 256] @ Q[left : left + 1024].T
                largest = max(largest, float(tile.max()), -float(tile.min()))
            return largest

        return max(self.map(run, range(0, P.shape[0], 256)))

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to each item on ``n_jobs`` threads; results come in the order of the items."""
        return ordered_map(function, items, self.n_jobs)


class FixedFactor:
    """A factor Q that stays as it is during a pass, and what is derived from it once for all panels."""

    def __init__(self, Q: Array, dtype: np.dtype[Any]) -> None:
        self.Q = np.ascontiguousarray(Q, dtype=dtype)
        self.column_sums: Array = np.sum(self.Q, axis=0, dtype=np.float64)
        self._products: dict[int, ColumnProducts] = {}
        self._lock = threading.Lock()

    def products(self, free: int) -> ColumnProducts:
        """Return the products of the first ``free`` columns, made by the first thread that asks."""
        with self._lock:
            if free not in self._products:
                self._products[free] = ColumnProducts(self.Q, free)
            return self._products[free]


class ColumnProducts:
    """``q_a q_b`` for every pair ``a <= b`` of the first columns of Q: rows of packed ``q q'``."""

    def __init__(self, Q: Array, free: int) -> None:
        self.Q = Q[:, :free]
        self.pairs = np.triu_indices(free)
        self.width = self.pairs[0].size
        kept = Q.shape[0] * self.width * Q.itemsize <= PRODUCTS_BYTES
        self.kept = self._of(self.Q) if kept else None

    @property
    def all(self) -> Array:
        """The products for every column of X, made again at each call above the memory limit."""
        return self._of(self.Q) if self.kept is None else self.kept

    @cached_property
    def sums(self) -> Array:
        """Packed ``sum_j q_j q_j'``."""
        return (self.Q.T.astype(np.float64) @ self.Q)[self.pairs]

    def block(self, columns: slice) -> Array:
        """Return the products for a run of columns of X."""
        return self._of(self.Q[columns]) if self.kept is None else self.kept[columns]

    def _of(self, Q: Array) -> Array:
        left, right = self.pairs
        # Not Q[:, left], whose rows are not together in memory: every sparse product would copy it.
        products = np.take(Q, left, axis=1)
        products *= np.take(Q, right, axis=1)
        return products
