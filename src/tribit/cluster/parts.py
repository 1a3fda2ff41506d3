"""Partitions of the rows of a matrix, and what a worker does with one; no word of dask here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.arrays import to_numpy
from tribit.backends import Backend, make_backend
from tribit.backends.base import Panel
from tribit.backends.cuda.device import memory_named, missing, usable_device
from tribit.backends.gram_cache import GramCache
from tribit.backends.layout import share_layouts
from tribit.backends.rows import HalfSweep, RowProblem, RowState
from tribit.backends.threads import single_threaded_blas
from tribit.cluster.risks import at_rows, transposed_at
from tribit.data.axis import Axes, Positions
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, ValuesOf
from tribit.errors import InvalidInputError, parameter
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Bytes of an entry in memory, of a partition and of its backend, about: dask moves what it holds to be small.
ENTRY_BYTES, BACKEND_BYTES = 17, 40


@dataclass(frozen=True, eq=False)
class Partition:
    """All entries of some rows.

    Attributes
    ----------
    entries : Observations
        Their rows numbered within the part, their columns as in the whole.
    rows : array of int
        The number in the whole of each row of the part, increasing.
    n_rows : int
        Number of rows of the whole.
    """

    entries: Observations
    rows: Positions
    n_rows: int

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        columns: NDArray[Any],
        labels: NDArray[np.int8],
        numbers: NDArray[Any],
        shape: tuple[int, int],
    ) -> Partition:
        """Return the part of entries that were checked: in row-major order, each pair once."""
        axes = Axes.of((numbers.size, shape[1]))
        entries = Observations.from_checked(
            Checked(rows.astype(np.int64), columns.astype(np.int64), labels.copy(), axes)
        )
        return cls(entries, numbers, shape[0])

    @property
    def whole(self) -> Observations:
        """The entries where they stand in the whole matrix."""
        entries = self.entries
        axes = Axes.of((self.n_rows, entries.shape[1]))
        return Observations.from_checked(
            Checked(self.rows[entries.rows], entries.columns.copy(), np.array(entries.labels), axes)
        )

    def __sizeof__(self) -> int:
        return ENTRY_BYTES * len(self.entries) + self.rows.nbytes


class PartBackend:
    """The backend of one part: rows by all columns; and the same by blocks of columns, transposed.

    A half-sweep over columns goes by blocks, as many columns at a time as their curvatures fit into memory. With one
    block the transposed backend of the rows serves; with more of them the entries are arranged once more. On a GPU the
    entries and the arithmetic are there, and factors come and go with each pass.

    Parameters
    ----------
    part : Partition
        The entries.
    link : Link
        How an entry becomes a like.
    risk : Risk
        How much each kind of entry counts.
    dtype : {"float32", "float64"}
        Type of the arithmetic.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Device of the worker that makes it; "auto" is a GPU where this worker has one and the part is large enough.
    """

    def __init__(
        self, part: Partition, link: Link, risk: Risk, dtype: str, device: str = "cpu"
    ) -> None:
        self.recipe = part, link, risk, dtype, device
        self.device = _device_here(device, part, link)
        share_layouts(part.entries)
        with _working():
            here = at_rows(risk, part.rows)
            self.backend = make_backend(
                part.entries, link, here, dtype=dtype, n_jobs=1, device=self.device
            )
        self._blocks: dict[tuple[int, int], Backend] = {}
        #: Columns in which the part has nothing to add: without a dense term those without entries, most of many.
        self.idle = (part.entries.counts[1] == 0) & (not risk.unobserved_weight)

    def panels(self, start: int, stop: int, P: Array) -> Iterator[Panel]:
        """Yield the panels of some columns against rows, those left out whose columns are all idle."""
        backend = self.block(start, stop)
        against = GramCache(P, backend.dtype)
        idle = self.idle[start:stop]
        for number in range(backend.n_panels):
            panel = backend.panel(number, against)
            if not idle[panel.rows].all():
                yield panel

    def block(self, start: int, stop: int) -> Backend:
        """Return the backend of some columns against the rows of the part."""
        part, link, risk, dtype, _ = self.recipe
        if (start, stop) == (0, part.entries.shape[1]):
            return self.backend.transposed
        if (start, stop) not in self._blocks:
            entries = part.entries
            inside = np.flatnonzero((entries.columns >= start) & (entries.columns < stop))
            order = inside[np.argsort(entries.columns[inside], kind="stable")]
            turned = Observations.from_checked(
                Checked(
                    entries.columns[order] - start,
                    entries.rows[order],
                    entries.labels[order],
                    Axes.of((stop - start, entries.shape[0])),
                )
            )
            risk = transposed_at(risk, part.rows, slice(start, stop))
            made = make_backend(turned, link, risk, dtype=dtype, n_jobs=1, device=self.device)
            made.other = None  # its half-sweeps are over these columns alone
            self._blocks[start, stop] = made
        return self._blocks[start, stop]

    def __reduce__(self) -> Any:
        # Buffers of threads do not travel: it is made again where it is needed.
        return PartBackend, self.recipe

    def __sizeof__(self) -> int:
        return BACKEND_BYTES * len(self.recipe[0].entries)


def _device_here(device: str, part: Partition, link: Link) -> str:
    """Return the device of a part on this worker, or say that it has no GPU."""
    if device == "cuda" and (reason := missing()) is not None:
        raise InvalidInputError(
            f"{parameter('device', 'cuda')} needs a GPU on every worker, and one has none: {reason}; use "
            f"{parameter('device', 'auto')}, with which each worker takes what it has."
        )
    return usable_device(device, len(part.entries), link)


@contextmanager
def _working() -> Iterator[None]:
    """Keep BLAS at one thread, and name the memory of a GPU where it is used up: its own error is not known here."""
    with single_threaded_blas(), memory_named():
        yield


def facts(part: Partition) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the numbers of entries of each row of the part; those of each column, and the number of likes."""
    rows, columns = part.entries.counts
    return rows, (columns, np.array(part.entries.n_likes))


def entries(part: Partition) -> tuple[Positions, Positions, NDArray[np.int8]]:
    """Return rows, columns and labels of the entries of the part, where they stand in the whole."""
    whole = part.whole
    return whole.rows, whole.columns, whole.labels


def as_likes(part: Partition) -> Partition:
    """Return the part with every entry a like."""
    return Partition(part.entries.as_likes(), part.rows, part.n_rows)


def applied(part: Partition, *arrays: Any, to: Callable[..., Any], **same: Any) -> Any:
    """Return what a function makes of the entries of the part, of its rows and of arrays at these."""
    with _working():
        return to(part.entries, part.rows, *arrays, **same)


def sums(part: Partition, values: ValuesOf) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sums of values over the rows of the part, and its share of those over columns."""
    entries, given = part.entries, values(part.whole, None)
    return (
        np.bincount(entries.rows, given, minlength=part.rows.size),
        np.bincount(entries.columns, given, minlength=entries.shape[1]),
    )


def matrix(part: Partition, P: Array | None, Q: Array | None, values: ValuesOf) -> sp.csr_array:
    """Return the rows of a matrix with a value at each entry, given ``x = P Q'`` there."""
    entries = part.entries
    x = None
    if P is not None and Q is not None:
        ones = np.zeros(P.shape[0]), np.zeros(Q.shape[0])
        x = Factors(P, Q, 0.0, *ones).at(entries.rows, entries.columns)
    given = values(part.whole, x)
    return sp.csr_array((given, (entries.rows, entries.columns)), shape=entries.shape)


def times(block: sp.csr_array, U: Array | None, V: Array | None) -> tuple[Any, Any]:
    """Return ``M V`` for the rows of a part, and its share of ``M' U``; None where not asked for."""
    return None if V is None else block @ V, None if U is None else block.T @ U


def value(held: PartBackend, P: Array, Q: Array) -> float:
    """Return the risk of the part."""
    with _working():
        return held.backend.value(P, Q)


def largest(held: PartBackend, P: Array, Q: Array) -> float:
    """Return ``max |P Q'|`` over the rows of the part."""
    with _working():
        return held.backend.largest(P, Q)


def gradient(
    held: PartBackend, P: Array, Q: Array, *, value: bool
) -> tuple[tuple[float, Array], Array]:
    """Return the risk of the part with its gradient in P, and its share of the gradient in Q."""
    with _working():
        total, in_P, in_Q = held.backend.gradient(P, Q, value=value)
    return (total, in_P), in_Q


def half_sweep(
    held: PartBackend,
    P: Array,
    multipliers: Array,
    Q: Array,
    *,
    problem: RowProblem,
    tightness: float,
    value: bool,
) -> tuple[HalfSweep, RowState]:
    """Return the moved rows of the part, and the state they leave to the next half-sweep."""
    state = RowState(P.shape[0])
    state.multipliers, state.tightness = multipliers.copy(), tightness
    with _working():
        half = held.backend.half_sweep(P, Q, problem, state, value=value)
    state.multipliers = np.asarray(to_numpy(state.multipliers), dtype=np.float64)
    return half, state


def column_models(
    held: PartBackend,
    P: Array,
    Q: Array,
    *,
    columns: tuple[int, int],
    free: int,
    exact: bool,
    value: bool,
) -> tuple[Array, Array, Array, Array]:
    """Return the share of the part in the models of some columns (:class:`tribit.backends.base.RowModels`).

    Values, gradients, the upper triangles of curvatures in the type of the arithmetic, and tightness times the number
    of the part's rows: all of these are sums over rows.
    """
    n, upper = Q.shape[0], np.triu_indices(free)
    dtype = held.backend.dtype
    values, gradients = np.full(n, 0.0 if value else np.nan), np.zeros((n, free))
    curvatures = np.zeros((n, upper[0].size), dtype=dtype)
    slack = 0.0
    with _working():
        for panel in held.panels(*columns, P):
            here = panel.rows
            model = panel.models(Q[here].astype(dtype), free, exact=exact, value=value)
            values[here], gradients[here] = model.values, model.gradients
            curvatures[here] = model.matrices()[:, upper[0], upper[1]]
            slack += (1.0 - model.tightness) * panel.height / n
    return values, gradients, curvatures, np.array((1.0 - slack) * P.shape[0])


def column_values(held: PartBackend, P: Array, Q: Array, *, columns: tuple[int, int]) -> Array:
    """Return the share of the part in the risk of some columns."""
    found = np.zeros(Q.shape[0])
    with _working():
        for panel in held.panels(*columns, P):
            found[panel.rows] = panel.values(Q[panel.rows].astype(held.backend.dtype))
    return found
