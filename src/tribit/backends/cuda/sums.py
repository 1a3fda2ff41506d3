"""Sums over the observed entries alone and over all entries, on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self, TypeAlias

import torch

from tribit.backends.cuda import dense, observed
from tribit.backends.cuda.backends import DeviceBackend, DeviceRows
from tribit.backends.cuda.losses import expected_labels
from tribit.errors import InvalidInputError, parameter
from tribit.model.links import Logistic, Probit
from tribit.model.risks import Imputation

Tensor: TypeAlias = torch.Tensor


class CudaSparseBackend(DeviceBackend):
    """Sums over the observed entries on a GPU, for risks that give the unobserved ones no weight."""

    has_bounds = False
    takes_all = False

    def half_gradient(self, P: Tensor, Q: Tensor, *, value: bool) -> tuple[Tensor | None, Tensor]:
        """Return the risk of each row in float64 (None unless asked for) and the gradient in P."""
        loss = self.tensors
        values, sums = observed.correction_sums(self.side, loss, P, Q, value=value)
        return values, sums * (loss.unit * loss.slope)

    def rows(self, P: Tensor, Q: Tensor, free: int, *, exact: bool, value: bool) -> DeviceRows:  # noqa: ARG002
        """Return models of all rows with exact curvatures: bounds would cost as much."""
        loss, layout = self.tensors, self.side.layout
        values, gradients = self.half_gradient(P, Q, value=value)
        weights = observed.curvature_weights(self.side, loss, P, Q, dense=False)
        q = Q[:, :free].contiguous()

        def curvatures(start: int, stop: int) -> Tensor:
            found = observed.blocks(layout, weights, q, start, stop)
            return found * (loss.unit * loss.slope**2)

        return DeviceRows(values, gradients[:, :free], curvatures)


class CudaTileBackend(DeviceBackend):
    """Sums over all entries on a GPU: the dense term, and the corrections of the observed entries."""

    takes_all = True
    imputed: tuple[dense.Imputed, dense.Imputed] | None = None
    #: Relative error of three products of half-precision numbers, summed in float32.
    error: ClassVar[float] = 1e-6

    @property
    def has_bounds(self) -> bool:
        """Whether the loss knows upper bounds of the curvature."""
        return bool(self.tensors.has_bounds)

    @property
    def transposed(self) -> Self:
        """The same risk with the roles of P and Q exchanged."""
        turned = super().transposed
        turned.imputed = None if self.imputed is None else self.imputed[::-1]
        return turned

    def impute(self, imputation: Imputation) -> Self:
        """Return the backend with a model's probabilities in the dense term."""
        if not isinstance(imputation.link, Logistic | Probit):
            raise InvalidInputError(
                f"{parameter('device', 'cuda')} imputes by the logistic and the probit link, and the imputed model has "
                f"a link of your own: use {parameter('device', 'cpu')}."
            )
        P, Q = (self.to_device(part) for part in imputation.factors.product_factors())
        link = imputation.link
        self.imputed = dense.Imputed(P, Q, link), dense.Imputed(Q, P, link)
        sides = []
        for side, (left, right) in zip((self.side, self.other), ((P, Q), (Q, P)), strict=True):
            x = observed.predictors(side.layout, left, right)
            one = torch.ones((1, 1), dtype=x.dtype, device=x.device)
            sides.append(replace(side, expected=expected_labels(x[:, None], one, link)[:, 0]))
        self.side, self.other = sides
        return self

    def half_gradient(self, P: Tensor, Q: Tensor, *, value: bool) -> tuple[Tensor | None, Tensor]:
        """Return the risk of each row in float64 (None unless asked for) and the gradient in P."""
        return self._pass(P, Q, value=value, squares=False)[:2]

    def rows(self, P: Tensor, Q: Tensor, free: int, *, exact: bool, value: bool) -> DeviceRows:
        """Return models of all rows; the bound of the dense term is the same for every row."""
        loss, layout = self.tensors, self.side.layout
        values, gradients, slack = self._pass(P, Q, value=value, squares=True)
        q = Q[:, :free].contiguous()
        if exact or not self.has_bounds:
            weights = observed.curvature_weights(self.side, loss, P, Q, dense=True)
            everywhere = dense.DenseCurvatures(loss, P, Q, free, self._own_imputation)

            def curvatures(start: int, stop: int) -> Tensor:
                found = everywhere.of(start, stop)
                found += observed.blocks(layout, weights, q, start, stop)
                return found * (loss.unit * loss.slope**2)
        else:
            bounds = self.side.bounds
            assert bounds is not None
            whole = ((q.double().T @ q.double()) * loss.dense_bound).to(q.dtype)

            def curvatures(start: int, stop: int) -> Tensor:
                return observed.blocks(layout, bounds, q, start, stop) + whole

        return DeviceRows(values, gradients[:, :free], curvatures, loss.tightness(slack))

    @property
    def _own_imputation(self) -> dense.Imputed | None:
        return None if self.imputed is None else self.imputed[0]

    def _pass(
        self, P: Tensor, Q: Tensor, *, value: bool, squares: bool
    ) -> tuple[Tensor | None, Tensor, float]:
        """Return values, gradients and the mean of ``t^2``: dense term, corrections and closed sums."""
        loss = self.tensors
        found = dense.dense_pass(loss, P, Q, self._own_imputation, value=value, squares=squares)
        corrections, sums = observed.correction_sums(self.side, loss, P, Q, value=value)
        total = Q.sum(0, dtype=torch.float64)
        gradients = (found.sums + sums) * (loss.unit * loss.slope)
        gradients += (loss.first_constant * total).to(P.dtype)
        values = None
        if found.values is not None and corrections is not None:
            linear = (P.double() @ total) * (loss.scale * loss.value_linear)
            values = loss.unit * found.values + corrections + linear
        return values, gradients, found.slack
