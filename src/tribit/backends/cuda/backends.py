"""Parts that the backends of a GPU share: arrays that come and go, gradients of both sides, features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tribit.arrays import is_numpy, to_numpy
from tribit.backends.balls import RowProblem
from tribit.backends.base import Backend, GramCache, RowModels
from tribit.backends.cuda import dense, observed
from tribit.backends.cuda.designs import DeviceBlock
from tribit.backends.cuda.device import load_algebra, place
from tribit.backends.cuda.layout import DeviceLayout
from tribit.backends.cuda.losses import DeviceLoss, device_loss
from tribit.backends.cuda.observed import DeviceSide
from tribit.backends.cuda.sweeps import half_sweep
from tribit.backends.layout import layouts, make_if_changed
from tribit.backends.losses import WeightedLoss
from tribit.backends.rows import HalfSweep, RowState
from tribit.data.observations import ByLabel, Observations
from tribit.model.design import Block
from tribit.model.factors import Factors
from tribit.model.features import Activity

Tensor: TypeAlias = torch.Tensor
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Models of all rows: values in float64 or None, gradients, a function of a run of rows for their curvatures."""

    values: Tensor | None
    gradients: Tensor
    curvatures: Callable[[int, int], Tensor]
    tightness: float = 1.0


class DevicePanel:
    """All rows of P against all of Q, with NumPy's arrays at the border."""

    def __init__(self, backend: DeviceBackend, Q: Any) -> None:
        self.backend, self.Q = backend, backend.to_device(Q)
        self.height = backend.shape[0]
        self.rows = slice(0, self.height)

    def values(self, P: Array) -> Array:
        """Return the risk of each row in float64."""
        return _to_numpy(self.backend.row_values(self.backend.to_device(P), self.Q))

    def models(self, P: Array, free: int, *, exact: bool, value: bool) -> RowModels:
        """Return a model of each row in its first ``free`` columns."""
        found = self.backend.rows(self.backend.to_device(P), self.Q, free, exact=exact, value=value)
        return RowModels(
            np.full(self.height, np.nan) if found.values is None else _to_numpy(found.values),
            _to_numpy(found.gradients),
            _to_numpy(found.curvatures(0, self.height)),
            found.tightness,
        )


class DeviceBackend(Backend):
    """Sums on a GPU. Factors that are tensors stay there, and so do gradients; NumPy's arrays are copied both ways."""

    device = "cuda"
    layout: ClassVar = DeviceLayout
    side: DeviceSide
    other: DeviceSide
    n_panels = 1
    #: Relative error of a row's value and of its curvature, in float32.
    error: ClassVar[float] = float(np.finfo(np.float32).eps)

    def __init__(
        self, side: DeviceSide, other: DeviceSide, loss: Any, dtype: np.dtype[Any], n_jobs: int
    ) -> None:
        tensors = loss if isinstance(loss, DeviceLoss) else device_loss(loss)
        super().__init__(side, other, tensors, dtype, n_jobs)  # type: ignore[arg-type]
        self.tensors: DeviceLoss = tensors
        self.kind = torch.float32 if dtype == np.float32 else torch.float64
        single = self.kind == torch.float32
        self.rounding = self.error if single else float(np.finfo(np.float64).eps)

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
        """Return the backend of a loss with correction weights ``plus``, ``minus`` on the observed entries.

        Where these are two, of a dislike and of a like, the labels alone are copied.
        """
        by_label = plus.size == 2 != observations.n_observed
        device_loss(loss)  # a link that it cannot compute is refused before anything is copied
        load_algebra()  # by whichever of a worker's threads comes first
        kind = np.dtype(dtype)
        made_of = (
            plus,
            minus,
            dtype,
            type(loss),
            loss.scale,
            loss.unit,
            getattr(loss, "sigma", None),
        )

        def sides() -> tuple[DeviceSide, DeviceSide]:
            numbers = [*loss.weights(plus, minus)]
            if loss.has_bounds and cls.takes_all:
                numbers.append(loss.correct_bound(plus, minus))
            weights = [torch.from_numpy(each.astype(kind)).to(place()) for each in numbers]
            if by_label:
                likes = torch.from_numpy(observations.labels > 0).to(place())
                weights = [torch.where(likes, each[1], each[0]) for each in weights]
            side, other = (
                DeviceSide(layout, *(each[layout.order] for each in weights))
                for layout in layouts(cls.layout, observations)
            )
            return side, other

        return cls(*make_if_changed(observations, cls, made_of, sides), loss, kind, n_jobs)

    @classmethod
    def arrange(cls, layout: Any, weights: tuple[Array, Array], bounds: Array | None) -> Any:
        """Return the observed entries of one orientation: :meth:`build` does it for both at once."""
        raise NotImplementedError

    def rows(self, P: Tensor, Q: Tensor, free: int, *, exact: bool, value: bool) -> DeviceRows:
        """Return models of all rows in their first ``free`` columns; bounds for curvature unless ``exact``."""
        raise NotImplementedError

    def half_gradient(self, P: Tensor, Q: Tensor, *, value: bool) -> tuple[Tensor | None, Tensor]:
        """Return the risk of each row in float64 (None unless asked for) and the gradient in P."""
        raise NotImplementedError

    def row_values(self, P: Tensor, Q: Tensor) -> Tensor:
        """Return the risk of each row in float64."""
        values = self.half_gradient(P, Q, value=True)[0]
        assert values is not None
        return values

    def panel(self, number: int, against: GramCache) -> DevicePanel:  # noqa: ARG002
        """Return all rows against a fixed Q."""
        return DevicePanel(self, against.Q)

    def to_device(self, array: Any) -> Any:
        """Return an array on the device, in the type of the arithmetic."""
        if is_numpy(array):
            array = torch.from_numpy(np.ascontiguousarray(array, dtype=self.dtype))
        return array.to(place(), self.kind).contiguous()

    def factors_to_device(self, factors: Factors) -> Factors:
        """Return factors whose arrays are on the device; those that are stay."""
        if not is_numpy(factors.row_factors):
            return factors
        return factors.map_arrays(self.to_device)

    def implicit_blocks(
        self, observations: Observations, activities: tuple[Activity, Activity], l2: float
    ) -> tuple[Any, Any]:
        """Return the blocks of implicit features: the mask has the layout of the entries."""
        own, other = self.side.layout, self.other.layout
        counts, popular = observations.counts
        return (
            DeviceBlock.of_mask(own, other, activities[0], counts, l2),
            DeviceBlock.of_mask(other, own, activities[1], popular, l2),
        )

    def block_to_device(self, block: Block) -> Any:
        """Return a block of features on the device."""
        return DeviceBlock.of_block(block)

    def matrix(self, observations: Observations, values: Any) -> tuple[Any, Any]:
        """Return the sparse matrix of a value at each entry and its transpose, to multiply by."""
        if isinstance(values, ByLabel):
            likes = torch.from_numpy(observations.labels > 0).to(place())
            pair = torch.tensor([values.dislike, values.like], dtype=self.kind, device=place())
            numbers = torch.where(likes, pair[1], pair[0])
        else:
            numbers = self.to_device(values(observations, None))
        own, other = (
            DeviceMatrix(side.layout, numbers[side.layout.order])
            for side in (self.side, self.other)
        )
        return own, other

    def value(self, P: Any, Q: Any) -> float:
        """Return the risk in float64."""
        return float(self.row_values(self.to_device(P), self.to_device(Q)).sum())

    def gradient(self, P: Any, Q: Any, *, value: bool = True) -> tuple[float, Any, Any]:
        """Return the risk (NaN unless ``value``) and its gradients in P and Q, as arrays of the kind that came.

        Beside tensors the risk is one too: a number would wait for the passes before anything else starts.
        """
        p, q = self.to_device(P), self.to_device(Q)
        values, in_P = self.half_gradient(p, q, value=value)
        _, in_Q = self.transposed.half_gradient(q, p, value=False)
        total: Any = float("nan") if values is None else values.sum()
        if is_numpy(P):
            return float(total), _to_numpy(in_P), _to_numpy(in_Q)
        return total, in_P, in_Q

    def half_sweep(
        self, P: Any, Q: Any, problem: RowProblem, state: RowState, *, value: bool = True
    ) -> HalfSweep:
        """Move every row of P to the minimiser of its own model, Q fixed."""
        found = half_sweep(self, self.to_device(P), self.to_device(Q), problem, state, value=value)
        return found._replace(P=_to_numpy(found.P)) if is_numpy(P) else found

    def largest(self, P: Any, Q: Any) -> float:
        """Return ``max |P Q'|`` over all entries."""
        return dense.largest(self.to_device(P), self.to_device(Q))


@dataclass(frozen=True, eq=False)
class DeviceMatrix:
    """A sparse matrix by rows, to multiply dense ones by."""

    layout: DeviceLayout
    values: Tensor

    def __matmul__(self, Q: Tensor) -> Tensor:
        return observed.row_sums(self.layout, self.values, Q.contiguous())


def _to_numpy(tensor: Tensor) -> Array:
    return np.asarray(to_numpy(tensor), dtype=np.float64)
