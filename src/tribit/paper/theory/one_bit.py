"""Bounds for entries seen as signs: Davenport et al. (2014), Cai and Zhou (2013), Hsieh et al. (2015)."""

from __future__ import annotations

import numpy as np

from tribit.checks import check_positive
from tribit.model.links import Link
from tribit.model.risks import check_rho
from tribit.paper.theory.assumptions import (
    check_delta,
    check_entries,
    check_likes,
    check_matrix,
    check_uniform_part,
)
from tribit.paper.theory.bound import Bound, make_bound, mean_over
from tribit.paper.theory.constants import link_constants


def davenport_bound(
    shape: tuple[int, int],
    n: float,
    *,
    rank: float,
    alpha: float,
    link: str | Link = "logistic",
    simplified: bool = False,
    constant: float = 1.0,
    probability_constant: float = 1.0,
) -> Bound:
    """Bound the error of ``min L_PN(X)`` over ``|X|_inf <= alpha``, ``|X|_* <= alpha sqrt(rank d1 d2)``.

    ``|X - M|_F^2 / (d1 d2) <= C_alpha sqrt(rank (d1 + d2) / n) sqrt(1 + (d1 + d2) log(d1 d2) / n)`` with
    ``C_alpha = C_2 alpha L_alpha beta_alpha`` and probability at least ``1 - C_1 / (d1 + d2)``: M. A. Davenport,
    Y. Plan, E. van den Berg and M. Wootters (2014), *1-bit matrix completion*, Information and Inference 3, 189-223.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : float
        Expected number of observed entries, each observed independently with probability ``n / (d1 d2)``.
    rank : float
        M is in the set, as it is when its rank is at most this: between 1 and ``min(d1, d2)``.
    alpha : float
        The bound of ``|M_ij|``.
    link : str or Link, default="logistic"
        ``P(like) = f(M_ij)``.
    simplified : bool, default=False
        Whether to put ``sqrt(2)`` for the last root, which needs ``n >= (d1 + d2) log(d1 d2)``.
    constant, probability_constant : float, default=1.0
        ``C_2`` and ``C_1``, absolute constants that the paper does not tell.

    Returns
    -------
    Bound
        Of ``|X - M|_F^2 / (d1 d2)``.

    Notes
    -----
    Hayashi et al. print ``C_alpha = C_2 L_alpha beta_alpha``. The factor ``alpha`` belongs to it: without it the
    bound would not have the unit of ``M^2``, and measuring M on another scale would change what it says.
    """
    d1, d2 = check_matrix(shape, rank)
    many = (d1 + d2) * float(np.log(d1 * d2))
    least = many if simplified else 0.0
    seen = check_entries(n, least, d1 * d2, "below (d1 + d2) log(d1 d2)", whole=False)
    alpha = check_positive("alpha", alpha)
    constants = link_constants(link, alpha)
    factor = check_positive("constant", constant) * alpha * constants.L * constants.beta
    rate = float(np.sqrt(rank * (d1 + d2) / seen))
    last = float(np.sqrt(2.0)) if simplified else float(np.sqrt(1.0 + many / seen))
    probability = 1.0 - check_positive("probability_constant", probability_constant) / (d1 + d2)
    return make_bound(
        "mean square", {"complexity": factor * rate * last}, (d1, d2), alpha**2, probability
    )


def cai_zhou_one_bit_bound(
    shape: tuple[int, int],
    n: int,
    *,
    rank: float,
    alpha: float,
    link: str | Link = "logistic",
    delta: float = 0.05,
    nu: float | None = None,
    constant: float = 1.0,
) -> Bound:
    """Bound the error of ``min L_PN(X)`` over ``|X|_inf <= alpha``, ``|X|_max <= alpha sqrt(rank)``.

    ``|X - M|_Pi^2 <= C beta_alpha (L_alpha alpha sqrt(rank (d1 + d2) / n) + U_alpha sqrt(log(4 / delta) / n))``
    with probability at least ``1 - delta``: T. T. Cai and W.-X. Zhou (2013), *A max-norm constrained minimization
    approach to 1-bit matrix completion*, Journal of Machine Learning Research 14, 3619-3647.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : int
        Number of observed entries, drawn from ``Pi`` with replacement.
    rank : float
        M is in the set, as it is when its rank is at most this: between 1 and ``min(d1, d2)``.
    alpha : float
        The bound of ``|M_ij|``.
    link : str or Link, default="logistic"
        ``P(like) = f(M_ij)``.
    delta : float, default=0.05
        The probability with which the bound may fail, inside (0, 1).
    nu : float or None, default=None
        Where given, ``pi_ij >= 1 / (nu d1 d2)`` for all entries, and the plain mean square is bounded instead,
        by ``nu`` times as much, as ``|X|_F^2 / (d1 d2) <= nu |X|_Pi^2``.
    constant : float, default=1.0
        ``C``, an absolute constant that the paper does not tell.

    Returns
    -------
    Bound
        Of ``|X - M|_Pi^2``, or of ``|X - M|_F^2 / (d1 d2)`` where ``nu`` is given.
    """
    d1, d2 = check_matrix(shape, rank)
    seen = check_entries(n, 1.0, np.inf, "too small")
    alpha, delta = check_positive("alpha", alpha), check_delta(delta)
    constants = link_constants(link, alpha)
    factor = check_positive("constant", constant) * check_uniform_part(nu) * constants.beta
    terms = {
        "complexity": factor * constants.L * alpha * float(np.sqrt(rank * (d1 + d2) / seen)),
        "confidence": factor * constants.U * float(np.sqrt(np.log(4.0 / delta) / seen)),
    }
    return make_bound(mean_over(nu), terms, (d1, d2), alpha**2, 1.0 - delta)


def hsieh_bound(
    shape: tuple[int, int],
    *,
    rho: float,
    trace_norm: float,
    likes: int | None = None,
    delta: float = 0.05,
    constant: float = 1.0,
) -> Bound:
    """Bound the error of ``min L_PU(X)`` with the squared loss over ``|X|_* <= t``, ``0 <= X_ij <= 1``.

    ``|X - M|_F^2 / (d1 d2) <= 2 C t (sqrt(d1) + sqrt(d2) + s^(1/4)) / ((1 - rho) d1 d2) +
    6 sqrt(log(2 / delta)) / ((1 - rho) sqrt(d1 d2))`` with probability at least ``1 - delta``, where
    ``P(Y_ij = 1) = M_ij`` and of the ``s`` ones in Y each is seen with probability ``1 - rho``: C.-J. Hsieh,
    N. Natarajan and I. S. Dhillon (2015), *PU learning for matrix completion*, International Conference on Machine
    Learning.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    rho : float
        Probability that a one is not seen, at least 0 and below 1.
    trace_norm : float
        ``t``, at least ``|M|_*``.
    likes : int or None, default=None
        ``s``, the number of ones in Y; None for ``d1 d2``, the most there can be.
    delta : float, default=0.05
        The probability with which the bound may fail, inside (0, 1).
    constant : float, default=1.0
        ``C``, an absolute constant that the paper does not tell. It multiplies the first term alone.

    Returns
    -------
    Bound
        Of ``|X - M|_F^2 / (d1 d2)``. Without data, 1/2 for every entry has a mean square of 1/4 at most.

    Notes
    -----
    Hayashi et al. print ``log(2 delta)``, which is negative for ``delta < 1/2``; it is ``log(2 / delta)``.
    """
    d1, d2 = check_matrix(shape, 1.0)
    q, delta = 1.0 - check_rho(rho), check_delta(delta)
    t = check_positive("trace_norm", trace_norm)
    s = check_likes(likes, d1 * d2)
    size = float(np.sqrt(d1) + np.sqrt(d2) + s**0.25)
    terms = {
        "complexity": 2.0 * check_positive("constant", constant) * t * size / (q * d1 * d2),
        "confidence": 6.0 * float(np.sqrt(np.log(2.0 / delta) / (d1 * d2))) / q,
    }
    return make_bound("mean square", terms, (d1, d2), 0.25, 1.0 - delta)
