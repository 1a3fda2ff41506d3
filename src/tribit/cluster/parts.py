"""Partitions of the rows of a matrix, their risks and backends, and the functions that workers apply to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.arrays import to_numpy
from tribit.backends import make_backend
from tribit.backends.balls import RowProblem
from tribit.backends.base import Backend, GramCache, Panel
from tribit.backends.cuda.device import memory_named, missing, usable_device
from tribit.backends.layout import make_if_changed, share_layouts
from tribit.backends.rows import HalfSweep, RowState
from tribit.backends.threads import single_threaded_blas
from tribit.data.axis import Axes, Positions
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, ValuesOf
from tribit.data.remote import RemoteObservations
from tribit.errors import InvalidInputError, parameter
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Imputation, Integers, Missingness, Risk
from tribit.randomness import hashed_fold_numbers

Array = NDArray[np.floating[Any]]

#: Approximate bytes of an entry in a partition and in its backend, by which dask decides where tasks run.
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


@dataclass(frozen=True)
class MeanWeighted(Risk):
    """A risk whose weights ``(1 / q_ij)^inverse_power`` are divided by their mean over all observed entries.

    Parameters
    ----------
    mean : float, default=1.0
        The mean of the weights; a partition has too few entries to compute it.
    """

    mean: float = 1.0

    def _inverse_weights(self, rho: Array, weights: Array | None) -> Array | float:  # noqa: ARG002 - there are none
        if not self.inverse_power or not rho.shape:
            return 1.0
        return np.asarray((1.0 - rho) ** -self.inverse_power / self.mean)


@dataclass(frozen=True)
class _InverseWeights:
    """``(1 / q_ij)^power`` at entries."""

    rho: Missingness
    power: float

    def __call__(self, entries: Observations, _: object = None) -> Array:
        return np.asarray((1.0 - self.rho.rho_at(entries.rows, entries.columns)) ** -self.power)


@dataclass(frozen=True)
class _RowsOf(Missingness):
    """The missingness of the whole matrix at the rows of a part, transposed or not."""

    model: Missingness
    rows: Positions
    first: int = 0
    transposed: bool = False

    def rho_at(self, rows: Integers, columns: Integers) -> Array:
        """Return ``P(entry is unobserved)``."""
        if self.transposed:
            rows, columns = columns, rows + self.first
        return self.model.rho_at(self.rows[rows], columns)


def with_mean_weight(risk: Risk, observations: RemoteObservations) -> Risk:
    """Return a risk with the mean of its weights, by one pass over the entries; the same risk where all are 1."""
    if isinstance(risk, MeanWeighted) or not risk.inverse_power:
        return risk
    if not isinstance(risk.rho, Missingness):  # all weights are 1
        return risk
    weights = _InverseWeights(risk.rho, risk.inverse_power)
    mean = make_if_changed(
        observations,
        "mean weight",
        (risk.rho, risk.inverse_power),
        lambda: float(np.sum(observations.sums(weights)[0])) / len(observations),
    )
    return MeanWeighted(**{each.name: getattr(risk, each.name) for each in fields(Risk)}, mean=mean)


def at_rows(risk: Risk, rows: Positions) -> Risk:
    """Return the risk of some rows, given the risk of the whole matrix."""
    if isinstance(risk.rho, Missingness):
        risk = replace(risk, rho=_RowsOf(risk.rho, rows))
    return replace(risk, imputed=_imputation_at(risk, rows, slice(None)))


def transposed_at(risk: Risk, rows: Positions, columns: slice) -> Risk:
    """Return the risk of some rows and a run of columns, transposed."""
    if isinstance(risk.rho, Missingness):
        risk = replace(risk, rho=_RowsOf(risk.rho, rows, columns.start, transposed=True))
    found = _imputation_at(risk, rows, columns)
    if found is not None:
        found = replace(found, factors=found.factors.transposed)
    return replace(risk, imputed=found)


def _imputation_at(risk: Risk, rows: Positions, columns: slice) -> Imputation | None:
    """Return the imputed labels of some rows and columns."""
    if risk.imputed is None:
        return None
    whole = risk.imputed.factors
    return replace(
        risk.imputed,
        factors=replace(
            whole,
            row_factors=whole.row_factors[rows],
            row_intercepts=whole.row_intercepts[rows],
            column_factors=whole.column_factors[columns],
            column_intercepts=whole.column_intercepts[columns],
        ),
    )


class PartBackend:
    """The backend of one part: rows by all columns; and the same by blocks of columns, transposed.

    A half-sweep over columns goes by blocks whose curvatures fit into memory. One block uses the transposed backend of
    the rows; several blocks need the entries arranged once more. On a GPU the entries stay on the device, and factors
    travel with each pass.

    Parameters
    ----------
    part : Partition
        The entries.
    link : Link
        Map from an entry of X to the probability of a like.
    risk : Risk
        Weights of observed and unobserved entries.
    dtype : {"float32", "float64"}
        Type of the arithmetic.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Device of the worker; "auto" is a GPU where the worker has one and the part is large enough.
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
        #: Columns to which the part adds nothing: without a dense term, those without entries.
        self.idle = (part.entries.counts[1] == 0) & (not risk.unobserved_weight)

    def panels(self, start: int, stop: int, P: Array) -> Iterator[Panel]:
        """Yield the panels of some columns against rows, except panels whose columns are all idle."""
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
        # Buffers of threads cannot be pickled: the backend is made again.
        return PartBackend, self.recipe

    def __sizeof__(self) -> int:
        return BACKEND_BYTES * len(self.recipe[0].entries)


def _device_here(device: str, part: Partition, link: Link) -> str:
    """Return the device of a part on this worker; refuse "cuda" where the worker has no GPU."""
    if device == "cuda" and (reason := missing()) is not None:
        raise InvalidInputError(
            f"{parameter('device', 'cuda')} needs a GPU on every worker, and one has none: {reason}; use "
            f"{parameter('device', 'auto')}, with which each worker uses its own device."
        )
    return usable_device(device, len(part.entries), link)


@contextmanager
def _working() -> Iterator[None]:
    """Keep BLAS at one thread, and turn a GPU that is out of memory into an error that any machine can read."""
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


def apply(part: Partition, *arrays: object, to: Callable[..., Any], **same: object) -> Any:
    """Return ``to(entries, rows, *arrays)`` for the part."""
    with _working():
        return to(part.entries, part.rows, *arrays, **same)


def split(part: Partition, *, n: int, number: int, seed: int) -> Partition:
    """Return a partition without the entries of a fold."""
    kept = ~_is_in_fold(part, n, number, seed)
    entries = part.entries
    return Partition.of(
        entries.rows[kept],
        entries.columns[kept],
        entries.labels[kept],
        part.rows,
        (part.n_rows, entries.shape[1]),
    )


def in_fold(
    part: Partition, *, n: int, number: int, seed: int
) -> tuple[Positions, Positions, NDArray[np.int8]]:
    """Return rows, columns and labels of the entries of a fold, where they stand in the whole."""
    chosen = _is_in_fold(part, n, number, seed)
    entries = part.entries
    return part.rows[entries.rows[chosen]], entries.columns[chosen], entries.labels[chosen]


def _is_in_fold(part: Partition, n: int, number: int, seed: int) -> NDArray[np.bool_]:
    rows = part.rows[part.entries.rows]
    return np.asarray(hashed_fold_numbers(rows, part.entries.columns, n, seed) == number)


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
    """Return ``M V`` for the rows of a part and its share of ``M' U``, None for an argument that is None."""
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
    problem: RowProblem,
    Q: Array,
    *,
    tightness: float,
    value: bool,
) -> tuple[HalfSweep, RowState]:
    """Return the moved rows of the part, and their state for the next half-sweep."""
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
