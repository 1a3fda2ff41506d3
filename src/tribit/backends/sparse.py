"""The pass over the observed entries alone, for risks that give the unobserved ones no weight.

Rows of similar length are padded to one length and make a batch. A batch is a few dense products over arrays of shape
(rows, length, columns of Q), and its gathered rows of Q stay in the cache between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import Roots, multiply_stacks
from tribit.backends.base import Backend, GramCache, RowModels
from tribit.backends.compiled import kernels_for
from tribit.backends.layout import Batch, RowLayout
from tribit.backends.losses import LogisticLoss, WeightedLoss

if TYPE_CHECKING:
    from tribit.data.observations import Observations

Array = NDArray[np.floating[Any]]


class _SparseSide:
    """The batches of one orientation with the weights of their entries."""

    def __init__(self, layout: RowLayout, weights: tuple[Array, Array]) -> None:
        self.shape, self.batches, self.n_entries = layout.shape, layout.batches, layout.n_entries
        # One more entry, of weight 0, stands for the padding.
        a, b = (np.append(each, each.dtype.type(0)) for each in weights)
        self.weights = [(a[batch.entries], b[batch.entries]) for batch in layout.batches]


def squares(q: Array, bend: Array) -> Array:
    """Return ``sum_j bend_j^2 q_j q_j'`` of each row of a batch."""
    # One array on both sides: the product is symmetric, and costs half.
    bent = q * bend[:, :, None]
    return multiply_stacks(bent.transpose(0, 2, 1), bent)


class SparsePanel:
    """The rows of one batch against all of Q, at the observed entries only."""

    def __init__(self, backend: SparseBackend, number: int, against: GramCache) -> None:
        self.backend = backend
        batch = backend.side.batches[number]
        self.rows, self.height = batch.rows, batch.rows.size
        self.weights = backend.side.weights[number]
        self.q: Array = np.take(against.Q, batch.columns, axis=0)

    def predictors(self, P: Array) -> Array:
        """Return ``z = scale x`` at the entries of the batch."""
        scaled = P * self.backend.dtype.type(self.backend.loss.scale)
        return multiply_stacks(self.q, scaled[:, :, None])[:, :, 0]

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        return self._row_sums(self.predictors(P))

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:  # noqa: ARG002
        """Return value, gradient and exact curvature of each row: bounds would cost as much."""
        loss, z, q = self.backend.loss, self.predictors(P), self.q[:, :, :free]
        first, second = loss.correct(z, *self.weights, True)
        bend = np.sqrt(np.maximum(0.0 if second is None else second, 0)).astype(first.dtype)
        gradients = multiply_stacks(first[:, None, :], q)[:, 0]
        return RowModels(
            self._row_sums(z) if value else np.full(self.height, np.nan),
            gradients.astype(np.float64) * (loss.unit * loss.slope),
            self._curvatures(q, bend),
        )

    def _curvatures(self, q: Array, bend: Array) -> Array | Roots:
        """Return ``sum_j bend_j^2 q_j q_j'`` of each row; its roots where a row has fewer entries than unknowns."""
        loss = self.backend.loss
        if q.shape[1] < q.shape[2]:
            roots = np.multiply(q, bend[:, :, None], dtype=np.float64)
            roots *= np.sqrt(loss.unit) * loss.slope
            return Roots(roots)
        return np.asarray(
            np.multiply(squares(q, bend), loss.unit * loss.slope**2, dtype=np.float64)
        )

    def first(self, P: Array, *, value: bool) -> tuple[float, Array, Array]:
        """Return the value of the batch, ``first_out`` at its entries, and its sums times q."""
        z = self.predictors(P)
        total = float(np.sum(self._row_sums(z))) if value else 0.0
        first = self.backend.loss.correct(z, *self.weights, False)[0]
        return total, first, multiply_stacks(first[:, None, :], self.q)[:, 0]

    def _row_sums(self, z: Array) -> Array:
        values = self.backend.loss.correct_value(z, *self.weights)
        return np.asarray(np.sum(values, axis=1, dtype=np.float64))


class SparseBackend(Backend):
    """Sums over the observed entries, for risks that give the unobserved ones no weight.

    Examples
    --------
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import make_backend
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> type(make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1)).__name__
    'SparseBackend'
    """

    side: _SparseSide
    other: _SparseSide
    has_bounds = False
    takes_all = False
    layout: ClassVar = RowLayout

    @classmethod
    def arrange(
        cls,
        layout: RowLayout,
        weights: tuple[Array, Array],
        bounds: Array | None,  # noqa: ARG003 - exact curvatures cost as little
    ) -> _SparseSide:
        """Put the weights of the observed entries in order."""
        return _SparseSide(layout, weights)

    @property
    def n_panels(self) -> int:
        """The number of batches."""
        return len(self.side.batches)

    def panel(self, number: int, against: GramCache) -> SparsePanel:
        """Return a batch of rows against a fixed Q."""
        return SparsePanel(self, number, against)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        P = np.ascontiguousarray(P, dtype=self.dtype)
        against = GramCache(Q, self.dtype)
        in_P, in_Q = np.empty(P.shape), np.empty(Q.shape)
        # The last place is that of the padding.
        derivatives = np.zeros(self.side.n_entries + 1, dtype=self.dtype)

        def by_rows(number: int) -> float:
            panel = self.panel(number, against)
            total, first, sums = panel.first(P[panel.rows], value=value)
            derivatives[self.side.batches[number].entries] = first
            in_P[panel.rows] = sums
            return total

        def by_columns(batch: Batch) -> None:
            first = derivatives[batch.entries]
            q = np.take(P, batch.columns, axis=0)
            in_Q[batch.rows] = multiply_stacks(first[:, None, :], q)[:, 0]

        total = float(sum(self.map(by_rows, range(self.n_panels))))
        for _ in self.map(by_columns, self.other.batches):
            pass
        unit = self.loss.unit * self.loss.slope
        return (total if value else float("nan")), in_P * unit, in_Q * unit


class CompiledSparse(Backend):
    """Sums over the observed entries alone, by compiled kernels where these serve.

    See :class:`~tribit.backends.compiled.backend.CompiledBackend`; the same sums by NumPy are
    :class:`~tribit.backends.SparseBackend`, which also has the links without a kernel.
    """

    takes_all = False
    weighs_labels = True

    @classmethod
    def build(
        cls,
        observations: Observations,
        loss: WeightedLoss,
        plus: Array,
        minus: Array,
        **options: Any,
    ) -> Any:
        """Return the backend: compiled for the logistic link and many entries."""
        fits = max(observations.shape) < 2**31  # places have 32 bits
        if fits and type(loss) is LogisticLoss and kernels_for(observations.n_observed):
            from tribit.backends.compiled.backend import CompiledBackend  # noqa: PLC0415

            return CompiledBackend.build(observations, loss, plus, minus, **options)
        if plus.size != observations.n_observed:  # those of a dislike and of a like
            likes = observations.labels > 0
            plus, minus = (np.where(likes, each[1], each[0]) for each in (plus, minus))
        return SparseBackend.build(observations, loss, plus, minus, **options)
