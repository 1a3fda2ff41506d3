"""The backend and the feature blocks of the compiled kernels, for observed entries under the logistic link.

Kernels work on blocks of rows: the work of one call, and of one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.balls import RowProblem
from tribit.backends.base import Backend, GramCache, Places, RowModels
from tribit.backends.compiled import rows as kernels
from tribit.backends.compiled.algebra import sparse_times
from tribit.backends.layout import layouts, stable_order
from tribit.backends.losses import WeightedLoss
from tribit.backends.rows import HalfSweep, RowState, half_sweep
from tribit.backends.threaded_block import ThreadedBlock
from tribit.backends.threads import ordered_map

if TYPE_CHECKING:
    from tribit.data.observations import Observations

#: Entries and rows in a block: enough that the call itself costs nothing, and few enough that threads end together.
BLOCK_ENTRIES, BLOCK_ROWS = 32768, 1024


def cut_into_blocks(indptr: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """Cut rows into blocks: they do not depend on threads."""
    blocks, start, n_rows = [], 0, indptr.size - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + BLOCK_ENTRIES, side="right")) - 1
        stop = min(max(stop, start + 1), start + BLOCK_ROWS, n_rows)
        blocks.append((start, stop))
        start = stop
    return blocks


Array = NDArray[np.floating[Any]]


class EntriesByRow:
    """The observed entries of one orientation, by rows, and the blocks that they are worked on in."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.n_entries = shape, rows.size
        self.order = stable_order(rows)
        counts = np.bincount(rows, minlength=shape[0])
        self.indptr = np.concatenate([[0], np.cumsum(counts)])
        self.columns = columns[self.order].astype(np.int32)
        self.blocks = cut_into_blocks(self.indptr)


class _CompiledSide:
    """The entries of one orientation with both weights of each, as in a CSR matrix."""

    def __init__(
        self, layout: EntriesByRow, weights: Array, likes: NDArray[np.bool_] | None
    ) -> None:
        self.shape, self.blocks, self.order = layout.shape, layout.blocks, layout.order
        if likes is None:
            own = weights.take(layout.order, axis=1)
        else:
            like, dislike = weights[:, 1:], weights[:, :1]
            own = np.where(likes[layout.order], like, dislike)
        self.entries = layout.indptr, layout.columns, own


class CompiledPanel:
    """The rows of one block against all of Q, at the observed entries only."""

    def __init__(self, backend: CompiledBackend, number: int, against: GramCache) -> None:
        self.backend, self.Q = backend, against.Q
        self.rows = slice(*backend.side.blocks[number])
        self.height = self.rows.stop - self.rows.start

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        found = np.empty(self.height)
        self._run(kernels.values, P, (self.backend.loss.scale, self.backend.loss.unit), found)
        return found

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:  # noqa: ARG002
        """Return value, gradient and exact curvature of each row: bounds would cost as much."""
        loss = self.backend.loss
        found, gradients = np.empty(self.height), np.empty((self.height, free))
        curvatures = np.empty((self.height, free, free))
        numbers = loss.scale, loss.unit, loss.slope
        self._run(kernels.models, P, numbers, found, gradients, curvatures)
        return RowModels(found if value else np.full_like(found, np.nan), gradients, curvatures)

    def _run(self, kernel: Callable[..., None], P: Array, numbers: Any, *found: Array) -> None:
        own = np.ascontiguousarray(P, dtype=self.backend.dtype)
        self.backend.check((self.height, self.backend.shape[1]), own, self.Q)
        entries = self.backend.side.entries
        kernel(self.rows.start, self.rows.stop, *entries, self.Q, own, *numbers, *found)


class CompiledBackend(Backend):
    """Sums over the observed entries, for risks that give the unobserved ones no weight; each row in one pass."""

    side: _CompiledSide
    other: _CompiledSide
    has_bounds = False
    takes_all = False
    layout: ClassVar = EntriesByRow

    #: Whether the weights are the same numbers in single and in double precision.
    has_exact_weights = False

    @classmethod
    def build(
        cls,
        observations: Observations,
        loss: WeightedLoss,
        plus: Array,
        minus: Array,
        *,
        dtype: str,
        n_jobs: int,
    ) -> Self:
        """Return the backend; two weights are those of a dislike and of a like."""
        kind, labels = np.dtype(dtype), observations.labels
        wide = np.stack(loss.weights(plus, minus))
        weights = wide.astype(kind, copy=False)
        by_label = plus.size != labels.size
        likes = labels > 0 if by_label else None
        side, other = (
            cls.arrange(each, (weights, likes), None) for each in layouts(cls.layout, observations)
        )
        found = cls(side, other, loss, kind, n_jobs)
        found.has_exact_weights = by_label and np.array_equal(wide.astype(np.float32), wide)
        return found

    @classmethod
    def arrange(
        cls,
        layout: EntriesByRow,
        weights: Any,
        bounds: Array | None,  # noqa: ARG003 - exact curvatures cost as little
    ) -> _CompiledSide:
        """Put the weights of the observed entries in order: their own, or two and which of these is each entry's."""
        return _CompiledSide(layout, *weights)

    @property
    def transposed(self) -> Self:
        """The same risk with the roles of P and Q exchanged."""
        found = super().transposed
        found.has_exact_weights = self.has_exact_weights
        return found

    def astype(self, dtype: str) -> Self | None:
        """Return the same sums in another type, with the same arrays; None if single precision rounds the weights."""
        if not self.has_exact_weights:
            return None
        found = type(self)(self.side, self.other, self.loss, np.dtype(dtype), self.n_jobs)
        found.has_exact_weights = True
        return found

    @staticmethod
    def check(shape: tuple[int, int], P: Array, Q: Array) -> None:
        """Refuse factors of other shapes: a kernel would read memory that is not theirs."""
        if (P.shape[0], Q.shape[0]) != shape or P.shape[1] != Q.shape[1]:
            raise ValueError(f"factors of shapes {P.shape} and {Q.shape} for {shape} entries")

    @property
    def n_panels(self) -> int:
        """The number of blocks."""
        return len(self.side.blocks)

    def panel(self, number: int, against: GramCache) -> CompiledPanel:
        """Return a block of rows against a fixed Q."""
        return CompiledPanel(self, number, against)

    def half_sweep(
        self, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool = True
    ) -> HalfSweep:
        """Move every row of P to the minimiser of its own model: one kernel where no row has a bound."""
        if problem.has_bounds:
            return half_sweep(self, P, Q, problem, state, value=value)
        loss, entries, Q = self.loss, self.side.entries, self.gram_cache(Q).Q
        P = np.ascontiguousarray(P, dtype=np.float64)
        self.check(self.shape, P, Q)
        moved, found = P.copy(), np.empty((P.shape[0], 2))
        centre = np.empty((0, 0)) if problem.prior_mean is None else problem.prior_mean
        numbers = loss.scale, loss.unit, loss.slope
        pull = np.atleast_2d(problem.ridge), np.ascontiguousarray(centre, dtype=np.float64)
        rounding = float(np.finfo(self.dtype).eps)

        def run(block: tuple[int, int]) -> None:
            kernels.move(*block, *entries, Q, P, *numbers, *pull, rounding, moved, found)

        for _ in self.map(run, self.side.blocks):
            pass
        state.tightness = 1.0
        values, gains = np.sum(found, axis=0)
        return HalfSweep(moved, float(gains), float(values))

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        P, Q = (np.ascontiguousarray(each, dtype=self.dtype) for each in (P, Q))
        self.check(self.shape, P, Q)
        in_P, in_Q = np.empty(P.shape), np.empty(Q.shape)
        by_rows, by_columns = self.side.entries, self.other.entries
        scale, unit = self.loss.scale, self.loss.unit * self.loss.slope
        nothing = np.empty(0, dtype=self.dtype)
        # In the order of the observations, in which both orientations find them.
        first = np.empty(self.side.order.size, dtype=self.dtype)

        def over_rows(block: tuple[int, int]) -> float:
            places = self.side.order
            return float(kernels.firsts(*block, *by_rows, places, Q, P, scale, unit, first, in_P))

        def over_columns(block: tuple[int, int]) -> None:
            here = slice(*by_columns[0][list(block)])
            own = first.take(self.other.order[here])
            sparse_times(*block, *by_columns[:2], own, here.start, P, nothing, nothing, in_Q)

        total = self.loss.unit * sum(self.map(over_rows, self.side.blocks), 0.0)
        for _ in self.map(over_columns, self.other.blocks):
            pass
        return (total if value else float("nan")), in_P, in_Q


class CompiledBlock(ThreadedBlock):
    """Features of rows with compiled products; see :class:`tribit.model.design.Block`."""

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
            blocks = cut_into_blocks(matrix.indptr)
            self.kept[key] = matrix.indptr, blocks

        def run(block: tuple[int, int]) -> None:
            arrays = matrix.indptr, matrix.indices, matrix.data
            sparse_times(*block, *arrays, 0, dense, shift, base, out)

        for _ in ordered_map(run, blocks, self.n_jobs):
            pass
        return out
