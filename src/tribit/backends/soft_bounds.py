"""A smooth bound on rows and intercepts, for unknowns that no projection keeps inside a ball.

    B(U, V, a, c) =   sum_i w_i / 2 max(|u_i|^2 / R - 1, 0)^2  +  sum_i w_i / 2 max(|a_i| / A - 1, 0)^2
                    + the same of the columns, v_j and c_j

With features a row of a factor is a sum of coefficients that rows share, so that no row can be projected on its own. B
grows as the fourth power of the factors, the logistic risk at most as the second power: their sum has a minimum where
the risk alone has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import dot, match_device, namespace
from tribit.data.observations import Observations
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Risk
from tribit.model.spec import ModelSpec

Array = NDArray[np.floating[Any]]

#: Weight of the bound of a row, relative to the largest force of the risk on it. A row whose entries all push outwards
#: stays within about ``|u|^2 <= R (1 + 1 / (2 * STIFFNESS))``, an intercept within ``A (1 + 1 / STIFFNESS)``. On a
#: synthetic table of 300 x 200 cells rows exceeded R by 5.2% at most and intercepts A by 7.9% (both PU with rho = .9);
#: rows of PN and of mixtures near it by less than 3%. A weight of 10 more than halves the excess, for 1.5 to 3 times
#: the iterations of L-BFGS.
STIFFNESS = 4.0


@dataclass(frozen=True, eq=False)
class SoftBounds:
    """The penalty B on the factors of a matrix.

    Attributes
    ----------
    row_radius : float
        R, the squared norm from which on a row of a factor is penalised; possibly infinite.
    intercept_bound : float
        A, the absolute value from which on a row or column intercept is penalised; possibly infinite.
    row_weights, column_weights : arrays
        The weights ``w``.
    """

    row_radius: float
    intercept_bound: float
    row_weights: Array
    column_weights: Array

    @classmethod
    def of(cls, spec: ModelSpec, observations: Observations, risk: Risk) -> SoftBounds | None:
        """Return the bound of a model; None where it has none."""
        radius, bound = spec.row_radius, spec.intercept_bound
        finite = [each for each in (radius, bound) if np.isfinite(each)]
        if not finite:
            return None
        level = max(finite)
        force = STIFFNESS * level * _steepest(spec.link, level)
        rows, columns = (force * each for each in _masses(observations, risk))
        return cls(radius, bound, rows, columns)

    def value(self, factors: Factors) -> float:
        """Return B."""
        return sum(
            0.5 * dot(weights, rows**2 + intercepts**2)
            for weights, rows, intercepts in self._excesses(factors)
        )

    def gradient(self, factors: Factors) -> Factors:
        """Return the gradient of B."""
        sides = []
        for (weights, rows, intercepts), F, a in zip(
            self._excesses(factors), *_sides(factors), strict=True
        ):
            in_rows = (2.0 / self.row_radius * weights * rows)[:, None] * F
            signs = namespace(a).sign(a)
            sides.append((in_rows, weights * intercepts * signs / self.intercept_bound))
        (in_U, in_a), (in_V, in_c) = sides
        return Factors(in_U, in_V, 0.0, in_a, in_c)

    def curvatures(self, factors: Factors) -> Factors:
        """Return the approximate curvature of B in each unknown beyond its bound, the mean over directions."""
        sides = []
        for (weights, rows, intercepts), F in zip(
            self._excesses(factors), _sides(factors)[0], strict=True
        ):
            # 2 / R (excess I + 2 u u' / R) w; the columns share its trace.
            bend = 2.0 / self.row_radius * (rows + 2.0 * (rows + 1.0) / max(F.shape[1], 1))
            in_rows = namespace(F).broadcast_to((weights * bend * (rows > 0))[:, None], F.shape)
            sides.append((in_rows, weights * (intercepts > 0) / self.intercept_bound**2))
        (in_U, in_a), (in_V, in_c) = sides
        return Factors(in_U, in_V, 0.0, in_a, in_c)

    def _excesses(self, factors: Factors) -> list[tuple[Array, Array, Array]]:
        """Return for each side its weights and how far rows and intercepts are beyond, relative to their bounds."""
        xp = namespace(factors.row_factors)
        return [
            (
                match_device(weights, F),
                xp.clip(xp.einsum("ik,ik->i", F, F) / self.row_radius - 1.0, 0.0, None),
                xp.clip(xp.abs(a) / self.intercept_bound - 1.0, 0.0, None),
            )
            for weights, F, a in zip(
                (self.row_weights, self.column_weights), *_sides(factors), strict=True
            )
        ]


def _sides(factors: Factors) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the two factors, and the two vectors of intercepts."""
    return (
        (factors.row_factors, factors.column_factors),
        (factors.row_intercepts, factors.column_intercepts),
    )


def _steepest(link: Link, level: float) -> float:
    """Return the steepest slope of the losses between ``-level`` and ``level``."""
    ends = np.array([-level, level])
    return float(max(np.max(np.abs(link.first(ends, sign))) for sign in (1, -1)))


def _masses(observations: Observations, risk: Risk) -> tuple[Array, Array]:
    """Return the absolute weights of all losses of each row and of each column, at least their mean.

    A row without entries has none under PN, and features may move it all the same.
    """

    def weights(seen: Observations, _: None) -> Array:
        plus, minus = seen.risk_weights(risk)
        return np.asarray(np.abs(plus) + np.abs(minus))

    d1, d2 = observations.shape
    rows, columns = observations.sums(weights)
    rows, columns = rows + risk.unobserved_weight * d2, columns + risk.unobserved_weight * d1
    return np.maximum(rows, np.mean(rows)), np.maximum(columns, np.mean(columns))
