"""Curvatures of a risk in each unknown, roughly: they set how fast a solver is, not where it ends."""

from __future__ import annotations

import numpy as np

from tribit.arrays import match_device, namespace
from tribit.data.observations import Observations
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Missingness, Risk

#: Least mean square of a factor where curvatures are guessed: one that is still near 0 will grow.
LEAST_SQUARE = 0.1


def diagonal_hessian_of_risk(
    link: Link, risk: Risk, observations: Observations, factors: Factors
) -> Factors:
    """Return the curvature of the risk in each unknown, as if every entry that counts had even odds.

    Where ``rho = 0`` most entries are the same label and far from even odds: they have those of its share.
    """
    d1, d2 = observations.shape
    bend = float(link.second(np.zeros(1), 1)[0])
    dense = risk.unobserved_weight * _dense_curvature(link, risk, observations)
    in_rows, in_columns = observations.counts
    of_rows = dense * d2 + bend * risk.pn * in_rows
    of_columns = dense * d1 + bend * risk.pn * in_columns
    U, V = factors.row_factors, factors.column_factors
    xp, empty = namespace(U), not factors.rank
    rows, columns = match_device(of_rows, U), match_device(of_columns, U)
    squares = (max(0.0 if empty else float(xp.mean(F**2)), LEAST_SQUARE) for F in (V, U))
    in_U, in_V = (
        xp.broadcast_to(square * curvature[:, None], F.shape)
        for F, curvature, square in zip((U, V), (rows, columns), squares, strict=True)
    )
    return Factors(in_U, in_V, float(np.sum(of_rows)), rows, columns)


def _dense_curvature(link: Link, risk: Risk, observations: Observations) -> float:
    """Return the curvature of an entry's share in the dense term, by weight: at even odds unless ``rho = 0``."""
    seen, level = observations, 0.0
    if risk.unobserved_weight and not isinstance(risk.rho, Missingness) and risk.rho == 0.0:
        cells = seen.shape[0] * seen.shape[1]
        likes = risk.pu * seen.n_likes + risk.nu * (cells - seen.n_dislikes)
        level = link.level(float(np.clip(likes / (risk.unobserved_weight * cells), 1e-6, 1 - 1e-6)))
    x = np.array([level])
    of_like, of_dislike = float(link.second(x, 1)[0]), float(link.second(x, -1)[0])
    share = risk.nu / risk.unobserved_weight if risk.unobserved_weight else 0.5
    return max(share * of_like + (1.0 - share) * of_dislike, 0.0)
