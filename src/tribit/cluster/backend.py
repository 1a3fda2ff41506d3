"""The backend over partitions of rows on the workers of a cluster.

A pass is one task for each partition. Results that the partitions share are added by a tree:

- the value and the largest entry: one number from each partition;
- the gradient: the part in P stays with the rows, the part in Q (columns x factors numbers) is added;
- a half-sweep over rows: each partition moves its own rows, as one machine would;
- a half-sweep over columns: the quadratic models of the columns are sums over rows, ``k (k + 3) / 2`` numbers a column
  from each partition; this machine moves a block of columns at a time to their minimisers.

A second copy of the entries, grouped by columns, would send all of P to every worker: ``d1 k`` numbers instead of
``d2 k (k + 3) / 2``. Tables that need a cluster have about 100 times more rows than columns (``docs/cluster.md``),
so the sums are smaller up to some hundreds of factors, and the entries are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Never, TypeVar

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import RowProblem
from tribit.backends.base import Backend, GramCache, Panel, RowModels
from tribit.backends.rows import HalfSweep, RowState
from tribit.cluster import parts
from tribit.cluster.calls import Cluster, Future
from tribit.cluster.matrices import MaskFeatures, blocks_of_mask
from tribit.data.axis import Positions
from tribit.model.design import Block, Design
from tribit.model.features import Activity, Features
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]
Result = TypeVar("Result")

#: Bytes of the curvatures of a block of columns, in each result that a worker adds and each block that is solved here.
#: 64 MiB are 30,000 columns of 32 factors in float32: tables with fewer have one block.
BLOCK_BYTES = 64 * 2**20
#: Divisor of the number of columns of a block: the height of a tile of the transposed table.
BLOCK_MULTIPLE = 256


class ClusterBackend(Backend):
    """Sums of one risk over the partitions of a table.

    Parameters
    ----------
    cluster : Cluster
        The workers.
    held : list of futures
        The :class:`~tribit.cluster.parts.PartBackend` of each partition.
    rows : list of array
        The rows of each partition.
    shape : tuple of two ints
        Numbers of rows and columns of the whole.
    dtype : dtype
        Type of the arithmetic.
    n_jobs : int
        Threads of this machine, for the moves of columns.
    bounded : bool
        Whether the loss has upper bounds of the curvature.
    """

    device = "cluster"

    def __init__(
        self,
        cluster: Cluster,
        held: Sequence[Future],
        rows: Sequence[Positions],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        n_jobs: int,
        *,
        bounded: bool,
    ) -> None:
        self.cluster, self.held, self.rows = cluster, list(held), list(rows)
        self.shape, self.dtype, self.n_jobs = shape, dtype, n_jobs
        self._bounded = bounded

    @classmethod
    def takes(cls, risk: Risk) -> bool:  # noqa: ARG003 - each partition has the backend that takes it
        """Return True: each partition has the backend of the processor that takes the risk."""
        return True

    @classmethod
    def arrange(cls, layout: object, weights: object, bounds: object) -> Never:
        """Refuse: the entries are arranged on the workers."""
        raise NotImplementedError("the entries are on the workers")

    def implicit_blocks(
        self, observations: Any, activities: tuple[Activity, Activity], l2: float
    ) -> tuple[Block, Block]:
        """Return the blocks of implicit features of rows and of columns, as matrices on the workers."""
        rows, columns = blocks_of_mask(observations, activities)
        return replace(rows, l2=l2), replace(columns, l2=l2)

    def features(self, rows: Design, columns: Design, *, implicit: bool) -> Features:
        """Return the designs of both sides; implicit features of both sides share a pass."""
        return MaskFeatures(rows, columns) if implicit else Features(rows, columns)

    @property
    def transposed(self) -> ClusterColumns:  # type: ignore[override]
        """The same risk with the roles of P and Q exchanged."""
        return ClusterColumns(self)

    @property
    def has_bounds(self) -> bool:
        """Whether models know upper bounds of the curvature."""
        return self._bounded

    @property
    def n_panels(self) -> int:
        """The number of partitions."""
        return len(self.held)

    def panel(self, number: int, against: GramCache) -> Never:
        """Refuse: rows move on the workers."""
        raise NotImplementedError("rows move on the workers")

    def value(self, P: Array, Q: Array) -> float:
        """Return the risk in float64."""
        return float(sum(self._everywhere(parts.value, P, Q)))

    def largest(self, P: Array, Q: Array) -> float:
        """Return ``max |P Q'|`` over all entries."""
        return float(max(self._everywhere(parts.largest, P, Q)))

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        found = self.cluster.map(
            parts.gradient, self.held, self.cut(P), Q=self._as_dtype(Q), value=value
        )
        by_rows, in_Q = self.cluster.own_and_total(found, Q.size * 8)
        in_P = np.empty(P.shape)
        for rows, (_, piece) in zip(self.rows, by_rows, strict=True):
            in_P[rows] = piece
        return float(sum(total for total, _ in by_rows)), in_P, in_Q

    def half_sweep(
        self, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool = True
    ) -> HalfSweep:
        """Move every row of P to the minimiser of its own model, Q fixed, each partition on its worker."""
        found = self.cluster.results(
            self.cluster.map(
                parts.half_sweep,
                self.held,
                [P[rows] for rows in self.rows],
                [state.multipliers[rows] for rows in self.rows],
                [problem.select(rows) for rows in self.rows],
                Q=self._as_dtype(Q),
                tightness=state.tightness,
                value=value,
            )
        )
        moved = P.copy()
        state.tightness = 0.0
        for rows, (half, left) in zip(self.rows, found, strict=True):
            moved[rows] = half.P
            state.multipliers[rows] = left.multipliers
            state.tightness += left.tightness * rows.size / P.shape[0]
        gain, values = (
            float(sum(getattr(half, name) for half, _ in found)) for name in ("gain", "value")
        )
        return HalfSweep(moved, gain, values)

    def cut(self, P: Array) -> list[Array]:
        """Return the rows of each partition, in the type of the arithmetic."""
        return [np.asarray(P[rows], dtype=self.dtype) for rows in self.rows]

    def _as_dtype(self, Q: Array) -> Array:
        return np.ascontiguousarray(Q, dtype=self.dtype)

    def _everywhere(self, function: Callable[..., Any], P: Array, Q: Array) -> list[float]:
        """Return one number from each partition."""
        found: list[float] = self.cluster.results(
            self.cluster.map(function, self.held, self.cut(P), Q=self._as_dtype(Q))
        )
        return found


class ClusterColumns(Backend):
    """The same sums with rows and columns exchanged: panels are blocks of columns, summed over partitions."""

    device = "cluster"

    def __init__(self, by_rows: ClusterBackend) -> None:
        self.by_rows = by_rows
        self.shape = by_rows.shape[1], by_rows.shape[0]
        self.dtype, self.n_jobs = by_rows.dtype, by_rows.n_jobs
        self.width = self.shape[0]

    takes, arrange = ClusterBackend.takes, ClusterBackend.arrange

    @property
    def transposed(self) -> ClusterBackend:  # type: ignore[override]
        """The sums by rows."""
        return self.by_rows

    @property
    def has_bounds(self) -> bool:
        """Whether models know upper bounds of the curvature."""
        return self.by_rows.has_bounds

    @property
    def n_panels(self) -> int:
        """The number of blocks of columns."""
        return -(-self.shape[0] // self.width)

    def value(self, P: Array, Q: Array) -> float:
        """Return the risk in float64."""
        return self.by_rows.value(Q, P)

    def largest(self, P: Array, Q: Array) -> float:
        """Return ``max |P Q'|`` over all entries."""
        return self.by_rows.largest(Q, P)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        total, in_Q, in_P = self.by_rows.gradient(Q, P, value=value)
        return total, in_P, in_Q

    def half_sweep(
        self, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool = True
    ) -> HalfSweep:
        """Move every column to the minimiser of its own model; blocks are as wide as their curvatures allow."""
        free = problem.free
        room = BLOCK_BYTES // (free * (free + 1) // 2 * self.dtype.itemsize)
        self.width = max(room // BLOCK_MULTIPLE * BLOCK_MULTIPLE, BLOCK_MULTIPLE)
        return super().half_sweep(P, Q, problem, state, value=value)

    def map_panels(self, function: Callable[[Panel], Result], Q: Array) -> Iterator[Result]:
        """Apply a function to each block of columns; the rows of the partitions are sent once for all of them."""
        rows = self.by_rows.cluster.spread(self.by_rows.cut(Q))
        return self.map(
            lambda number: function(ClusterPanel(self, number, rows)), range(self.n_panels)
        )

    def panel(self, number: int, against: GramCache) -> ClusterPanel:
        """Return a block of columns against fixed rows."""
        return ClusterPanel(self, number, self.by_rows.cut(against.Q))


class ClusterPanel:
    """A block of columns against the rows of all partitions."""

    def __init__(self, backend: ClusterColumns, number: int, against: Sequence[Future]) -> None:
        self.backend, self.against = backend, against
        start = number * backend.width
        self.rows = slice(start, min(start + backend.width, backend.shape[0]))
        self.height = self.rows.stop - start

    def values(self, P: Array) -> Array:
        """Return the risk of each column in float64."""
        found: Array = self._sum_over_parts(parts.column_values, P, 1)
        return found

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:
        """Return a model of each column in its first ``free`` unknowns."""
        values, gradients, packed, tight = self._sum_over_parts(
            parts.column_models, P, free * (free + 3) // 2, free=free, exact=exact, value=value
        )
        curvatures = np.empty((self.height, free, free))
        left, right = np.triu_indices(free)
        curvatures[:, left, right] = curvatures[:, right, left] = packed
        return RowModels(values, gradients, curvatures, float(tight) / self.backend.shape[1])

    def _sum_over_parts(
        self, function: Callable[..., Any], P: Array, width: int, **options: object
    ) -> Any:
        """Return the sum over partitions of arrays with ``width`` numbers a column."""
        backend = self.backend.by_rows
        columns = self.rows.start, self.rows.stop
        found = backend.cluster.map(
            function, backend.held, self.against, Q=P, columns=columns, **options
        )
        return backend.cluster.total(found, 8 * width * self.height)
