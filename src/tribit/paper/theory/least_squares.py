"""Bounds for real-valued entries seen with noise: Candès and Plan (2010), Cai and Zhou (2016)."""

from __future__ import annotations

import numpy as np

from tribit.checks import check_not_negative, check_positive
from tribit.paper.theory.assumptions import check_entries, check_matrix, check_uniform_part
from tribit.paper.theory.bound import Bound, make_bound, mean_over

#: The least K with ``E exp(|z| / K) <= e`` for a standard normal z, as Cai and Zhou (2016) ask of the noise.
GAUSSIAN_TAIL = 1.0162


def candes_plan_bound(
    shape: tuple[int, int],
    n: int,
    noise: float,
    *,
    rank: float | None = None,
    alpha: float | None = None,
) -> Bound:
    """Bound the error of ``min |X|_*`` over ``|P_Omega(X - Y)|_F <= noise``, where ``Y = M + Z``.

    ``|X - M|_F <= 2 noise (1 + 2 sqrt((2 + p) min(d1, d2) / p))`` with ``p = n / (d1 d2)``: E. J. Candès and
    Y. Plan (2010), *Matrix completion with noise*, Proceedings of the IEEE 98, 925-936.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : int
        Number of observed entries, at most ``d1 d2``, all different and drawn at random.
    noise : float
        ``delta``, at least ``|P_Omega(Z)|_F`` and at least 0; about ``sigma sqrt(n)`` for independent noise.
    rank : float or None, default=None
        The rank of M. Where given, ``n`` must be at least ``rank (d1 + d2 - rank)``, the numbers that M has.
    alpha : float or None, default=None
        A bound of ``|M_ij|``, to tell whether the bound is vacuous.

    Returns
    -------
    Bound
        Of ``|X - M|_F``. There is no unknown constant in it.

    Notes
    -----
    The theorem also asks that the singular vectors of M be spread out (incoherence) and n be of the order of
    ``rank max(d1, d2)`` times a power of the logarithm of ``max(d1, d2)``, with which it holds with a probability
    near 1. No number given here can show either; ``probability`` is 1, given that both hold.
    """
    d1, d2 = check_matrix(shape, 1.0 if rank is None else rank)
    least = 1.0 if rank is None else rank * (d1 + d2 - rank)
    seen = check_entries(n, least, d1 * d2, "below the number of free parameters of M")
    noise, p = check_not_negative("noise", noise), seen / (d1 * d2)
    terms = {
        "observed": 2.0 * noise,
        "unobserved": 4.0 * noise * float(np.sqrt((2.0 + p) * min(d1, d2) / p)),
    }
    trivial = np.inf if alpha is None else check_positive("alpha", alpha) ** 2
    return make_bound("frobenius", terms, (d1, d2), trivial)


def cai_zhou_least_squares_bound(
    shape: tuple[int, int],
    n: int,
    *,
    rank: float,
    alpha: float,
    sigma: float,
    tail: float = GAUSSIAN_TAIL,
    nu: float | None = None,
    constant: float = 1.0,
) -> Bound:
    """Bound the error of ``min sum_t (Y_t - X_t)^2`` over ``|X|_inf <= alpha``, ``|X|_max <= alpha sqrt(rank)``.

    ``|X - M|_Pi^2 <= C max(alpha, K sigma) alpha sqrt(rank (d1 + d2) / n)`` with probability at least
    ``1 - 2 exp(-(d1 + d2))``: T. T. Cai and W.-X. Zhou (2016), *Matrix completion via max-norm constrained
    optimization*, Electronic Journal of Statistics 10, 1493-1525.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : int
        Number of observed entries, drawn from ``Pi`` with replacement: ``d1 + d2 < n < d1 d2``.
    rank : float
        M is in the set, as it is when its rank is at most this: between 1 and ``min(d1, d2)``.
    alpha : float
        The bound of ``|M_ij|``.
    sigma : float
        Deviation of the noise, ``Y = M + sigma z``; 0 for none.
    tail : float, default=GAUSSIAN_TAIL
        ``K``, with ``E exp(|z| / K) <= e`` for the noise ``z`` of variance 1.
    nu : float or None, default=None
        Where given, ``pi_ij >= 1 / (nu d1 d2)`` for all entries, and the plain mean square is bounded instead,
        by ``nu`` times as much.
    constant : float, default=1.0
        ``C``, an absolute constant that the paper does not tell.

    Returns
    -------
    Bound
        Of ``|X - M|_Pi^2``, or of ``|X - M|_F^2 / (d1 d2)`` where ``nu`` is given.

    Notes
    -----
    Hayashi et al. call ``|X|_F / (d1 d2)`` the scaled norm that uniform ``Pi`` gives; it is
    ``|X|_F / sqrt(d1 d2)``.
    """
    d1, d2 = check_matrix(shape, rank)
    seen = check_entries(n, d1 + d2 + 1, d1 * d2 - 1, "not above d1 + d2")
    alpha, sigma = check_positive("alpha", alpha), check_not_negative("sigma", sigma)
    size = max(alpha, check_positive("tail", tail) * sigma) * alpha
    factor = check_positive("constant", constant) * check_uniform_part(nu)
    terms = {"complexity": factor * size * float(np.sqrt(rank * (d1 + d2) / seen))}
    probability = 1.0 - 2.0 * float(np.exp(-(d1 + d2)))
    return make_bound(mean_over(nu), terms, (d1, d2), alpha**2, probability)
