"""The interface of a backend, shared sums over panels of rows, and a cache of the fixed factor's Gram matrices."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import Roots, RowProblem
from tribit.backends.compiled import kernels_for
from tribit.backends.layout import Layout, layouts, make_once
from tribit.backends.losses import WeightedLoss
from tribit.backends.rows import HalfSweep, RowState, half_sweep
from tribit.backends.threaded_block import ThreadedBlock
from tribit.backends.threads import ordered_map
from tribit.model.design import Block, Design, ScaledMask, scaled_masks
from tribit.model.factors import Factors
from tribit.model.features import Activity, Features, implicit_blocks
from tribit.model.risks import Imputation, Risk

if TYPE_CHECKING:
    from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RowModels:
    """A quadratic model of the risk of each row, at the row's current place.

    ``values`` are NaN where not requested. ``curvatures``, one square matrix a row or the roots of such matrices, are
    exact ones, ``sum_j max(l''_ij, 0) q_j q_j'``, or upper bounds of them. ``tightness`` is the mean over all entries
    of curvature / bound, 1 where no bound is known.
    """

    values: Array
    gradients: Array
    curvatures: Array | Roots
    tightness: float = 1.0

    def matrices(self) -> Array:
        """Return the curvatures as matrices."""
        return self.curvatures.matrices() if isinstance(self.curvatures, Roots) else self.curvatures


class Panel(Protocol):
    """Some rows of P against all of Q: the unit of work of one thread.

    Examples
    --------
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import make_backend
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> backend = make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1)
    >>> backend.dtype.name  # its sums visit one panel of rows after another
    'float64'
    """

    @property
    def rows(self) -> slice | Places:
        """The rows, as an index into P."""
        ...

    @property
    def height(self) -> int:
        """Number of rows."""
        ...

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64, at ``P`` for these rows."""
        ...

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:
        """Return a model of each row in its first ``free`` columns; bounds for curvature unless ``exact``."""
        ...


def masks(observations: Observations) -> tuple[ScaledMask, ScaledMask]:
    """Return the scaled masks of rows and of columns, the basis of implicit features."""
    return make_once(observations, "masks", lambda: scaled_masks(observations))


class Backend(ABC):
    """Exact sums of one risk over all entries of ``X = P Q'``, on one device.

    A backend gives the value and the gradient of the risk, a half-sweep over the rows of P, and the largest entry.
    The half-sweep and the value are written once here, over panels of rows; a device with better ways overrides them.
    ``side`` and ``other`` hold the observed entries by rows and by columns, as the backend wants them.

    Examples
    --------
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import Backend, make_backend
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> isinstance(make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1), Backend)
    True
    """

    #: Device of the arithmetic; see :func:`tribit.backends.make_backend`.
    device: ClassVar[str] = "cpu"
    #: Whether unobserved entries count in the risks that it sums.
    takes_all: ClassVar[bool]
    #: Whether sums over all entries are estimates from a sample.
    estimates: ClassVar[bool] = False
    #: Whether :meth:`build` takes two weights, of a dislike and of a like, for those of all entries.
    weighs_labels: ClassVar[bool] = False
    #: Layout of the entries: their order.
    layout: ClassVar[type[Layout]]

    def __init__(
        self, side: Any, other: object, loss: WeightedLoss, dtype: np.dtype[Any], n_jobs: int
    ) -> None:
        self.side, self.other, self.loss = side, other, loss
        self.shape: tuple[int, int] = side.shape
        self.dtype, self.n_jobs = dtype, n_jobs

    @classmethod
    def takes(cls, risk: Risk) -> bool:
        """Return whether the backend can sum this risk: one in which unobserved entries count, or do not."""
        return bool(risk.unobserved_weight) == cls.takes_all

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
        """Return the backend of a loss with correction weights ``plus``, ``minus`` on the observed entries."""
        kind = np.dtype(dtype)
        # Without names of their own, so that they are freed: in double precision they are copies.
        a, b = (each.astype(kind, copy=False) for each in loss.weights(plus, minus))
        weights = a, b
        bounds = loss.correct_bound(plus, minus).astype(kind) if loss.has_bounds else None
        side, other = (
            cls.arrange(layout, weights, bounds) for layout in layouts(cls.layout, observations)
        )
        return cls(side, other, loss, kind, n_jobs)

    @classmethod
    @abstractmethod
    def arrange(cls, layout: Any, weights: tuple[Array, Array], bounds: Array | None) -> Any:
        """Return the observed entries of one orientation with their weights, in the order of the layout."""

    @property
    def transposed(self) -> Self:
        """The same risk with the roles of P and Q exchanged."""
        return type(self)(self.other, self.side, self.loss, self.dtype, self.n_jobs)

    @property
    @abstractmethod
    def has_bounds(self) -> bool:
        """Whether ``models`` has upper bounds of the curvature."""

    @property
    @abstractmethod
    def n_panels(self) -> int:
        """The number of panels of rows; it does not depend on threads."""

    @abstractmethod
    def panel(self, number: int, against: GramCache) -> Panel:
        """Return one panel of rows against a fixed Q."""

    @abstractmethod
    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""

    def half_sweep(
        self, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool = True
    ) -> HalfSweep:
        """Move every row of P to the minimiser of its own model, Q fixed (:func:`tribit.backends.rows.half_sweep`)."""
        return half_sweep(self, P, Q, problem, state, value=value)

    def impute(self, imputation: Imputation) -> Self:
        """Return the backend with a model's probabilities in the dense term, for a loss that expects them."""
        raise NotImplementedError(f"{type(self).__name__} has no dense term.")

    def to_device(self, array: Array) -> Array:
        """Return an array on the backend's device, in the type of its arithmetic; on a CPU unchanged."""
        return array

    def factors_to_device(self, factors: Factors) -> Factors:
        """Return factors with arrays on the backend's device; on a CPU unchanged."""
        return factors

    def implicit_blocks(
        self, observations: Observations, activities: tuple[Activity, Activity], l2: float
    ) -> tuple[Any, Any]:
        """Return the blocks of implicit features of rows and of columns, on the backend's device."""
        rows, columns = implicit_blocks(observations, activities, l2, masks(observations))
        return self.block_to_device(rows), self.block_to_device(columns)

    def features(self, rows: Design, columns: Design, *, implicit: bool) -> Features:  # noqa: ARG002
        """Return the designs of both sides; ``implicit`` where the first block of each is of the mask."""
        return Features(rows, columns)

    def block_to_device(self, block: Block) -> Any:
        """Return a block of features that combines parts where the backend works; on a CPU compiled where that pays."""
        if not kernels_for(block.matrix.nnz):
            return ThreadedBlock.of(block, self.n_jobs)
        from tribit.backends.compiled.backend import CompiledBlock  # noqa: PLC0415

        return CompiledBlock.of(block, self.n_jobs)

    def matrix(self, observations: Observations, values: Any) -> tuple[Any, Any]:
        """Return the sparse matrix of a value at each entry (:meth:`Observations.matrix`) and its transpose."""
        G = observations.matrix(values)
        return G, G.T.tocsr()

    def value(self, P: Array, Q: Array) -> float:
        """Return the risk in float64."""
        P = np.asarray(P, dtype=self.dtype)
        return sum(
            self.map_panels(lambda panel: float(np.sum(panel.values(P[panel.rows]))), Q), 0.0
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

    def map_panels(self, function: Callable[[Panel], Result], Q: Array) -> Iterator[Result]:
        """Apply a function to each panel against Q; a panel exists only while the function runs."""
        against = self.gram_cache(Q)
        return self.map(lambda number: function(self.panel(number, against)), range(self.n_panels))

    def gram_cache(self, Q: Array) -> GramCache:
        """Return Q with a cache of the values that panels derive from it during a pass."""
        return GramCache(Q, self.dtype)

    def with_seed(self, seed: int) -> Self:  # noqa: ARG002
        """Return the backend with a sample of this seed; exact sums have none."""
        return self

    def resample(self) -> Self:
        """Return the backend with another sample; exact sums have none."""
        return self

    def double_sample(self) -> Self | None:
        """Return the backend with a larger sample from the next stage on; None where there is none."""
        return None

    def refit_control_variates(self, P: Array, Q: Array) -> Self:  # noqa: ARG002
        """Return the backend with control variates fitted near these factors; exact sums have none."""
        return self

    def astype(self, dtype: str) -> Self | None:  # noqa: ARG002
        """Return the same sums in another type of arithmetic; None where they must be rebuilt from the observations."""
        return None


Made = TypeVar("Made")

#: Largest size in bytes of the products of columns that are kept for a whole pass, ``k (k + 1) / 2`` numbers for each
#: column of X; larger ones are computed as needed.
PRODUCTS_BYTES = 64 * 2**20


class GramCache:
    """A factor Q that is fixed during a pass, with values derived from it once for all panels."""

    def __init__(self, Q: Array, dtype: np.dtype[Any]) -> None:
        self.Q = np.ascontiguousarray(Q, dtype=dtype)
        self.column_sums: Array = np.sum(self.Q, axis=0, dtype=np.float64)
        self._made: dict[tuple[Callable[..., Any], int], Any] = {}
        self._lock = threading.Lock()

    def columns(self, free: int) -> Array:
        """Return the first ``free`` columns, contiguous in memory: gathering rows of a slice would copy all of it."""
        return self._once(_columns, free)

    def squares(self, free: int) -> Array:
        """Return ``sum_j q_j q_j'`` of the first ``free`` columns, in float64."""
        return self._once(_squares, free)

    def products(self, free: int) -> ColumnProducts:
        """Return the products of the first ``free`` columns."""
        return self._once(ColumnProducts, free)

    def _once(self, make: Callable[[Array, int], Made], free: int) -> Made:
        """Return the value derived from the first columns, computed by the first thread that needs it."""
        with self._lock:
            if (make, free) not in self._made:
                self._made[make, free] = make(self.Q, free)
            found: Made = self._made[make, free]
            return found


def _columns(Q: Array, free: int) -> Array:
    return np.ascontiguousarray(Q[:, :free])


def _squares(Q: Array, free: int) -> Array:
    return np.asarray(Q[:, :free].T.astype(np.float64) @ Q[:, :free])


class ColumnProducts:
    """``q_a q_b`` for every pair ``a <= b`` of the first columns of Q: rows of packed ``q q'``."""

    def __init__(self, Q: Array, free: int) -> None:
        self.Q = Q[:, :free]
        self.pairs = np.triu_indices(free)
        self.width = self.pairs[0].size
        kept = Q.shape[0] * self.width * Q.itemsize <= PRODUCTS_BYTES
        self.kept = self._of(self.Q) if kept else None

    def block(self, columns: slice) -> Array:
        """Return the products for a run of columns of X."""
        return self._of(self.Q[columns]) if self.kept is None else self.kept[columns]

    def unpack(self, packed: Array) -> Array:
        """Return symmetric matrices from their upper triangles, by rows."""
        free = self.Q.shape[1]
        full = np.empty((packed.shape[0], free, free))
        left, right = self.pairs
        full[:, left, right] = packed
        full[:, right, left] = packed
        return full

    def _of(self, Q: Array) -> Array:
        left, right = self.pairs
        # Not Q[:, left], whose rows are not together in memory: every product would copy it.
        products = np.take(Q, left, axis=1)
        products *= np.take(Q, right, axis=1)
        return products
