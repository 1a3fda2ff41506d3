"""Upper bounds of the error of an estimate, for measured values and for signs, each theorem a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tribit.checks import (
    check_between,
    check_count,
    check_not_negative,
    check_positive,
    is_number,
    is_whole,
)
from tribit.data.ingest import check_shape
from tribit.errors import InvalidInputError
from tribit.model.links import Link
from tribit.model.risks import check_rho
from tribit.paper.theory.constants import link_constants

Quantity = Literal["frobenius", "mean square", "weighted mean square"]
#: Smallest K with ``E exp(|z| / K) <= e`` for a standard normal z, the condition of Cai and Zhou (2016) on the noise.
GAUSSIAN_TAIL = 1.0162


@dataclass(frozen=True)
class Bound:
    """An upper bound of an error, and the terms of its sum.

    Parameters
    ----------
    value : float
        The bound, in the unit of the theorem.
    quantity : {"frobenius", "mean square", "weighted mean square"}
        The bounded error: ``|X - M|_F``, ``|X - M|_F^2 / (d1 d2)`` or ``|X - M|_Pi^2``.
    probability : float
        The bound holds with at least this probability; at most 0 is no statement.
    terms : dict of str to float
        The parts of ``value``, by name.
    shape : tuple of two ints
        Numbers of rows and columns of the matrix.
    trivial : float
        Upper bound of the (weighted) mean square of an estimate without data, infinite where none is known.

    Examples
    --------
    >>> from tribit.paper.theory import davenport_bound
    >>> bound = davenport_bound((200, 200), 28000, rank=1, alpha=1.0)
    >>> round(bound.value, 2), round(bound.probability, 4), bound.vacuous
    (0.65, 0.9975, False)
    """

    value: float
    quantity: Quantity
    probability: float
    terms: dict[str, float]
    shape: tuple[int, int]
    trivial: float = np.inf

    @property
    def mean_square(self) -> float:
        """The bound as a (weighted) mean of squares, ``|X - M|_F^2 / (d1 d2)`` or ``|X - M|_Pi^2``."""
        if self.quantity != "frobenius":
            return self.value
        return self.value * (self.value / (self.shape[0] * self.shape[1]))

    @property
    def vacuous(self) -> bool:
        """Whether an estimate without data has a bound as low."""
        return self.mean_square >= self.trivial or self.probability <= 0.0

    def relative_error(self, norm: float) -> float:
        """Return the bound of ``|X - M| / |M|``; above 1 a matrix of zeros does better.

        Parameters
        ----------
        norm : float
            ``|M|_Pi``, from :func:`~tribit.paper.theory.weighted_frobenius`: with uniform weights
            ``|M|_F / sqrt(d1 d2)``.
        """
        return float(np.sqrt(self.mean_square)) / check_positive("norm", norm)


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
        Number of observed entries, at most ``d1 d2``, sampled without replacement.
    noise : float
        ``delta``, at least ``|P_Omega(Z)|_F`` and at least 0; about ``sigma sqrt(n)`` for independent noise.
    rank : float or None, default=None
        The rank of M. Where given, ``n`` must be at least ``rank (d1 + d2 - rank)``, the numbers that M has.
    alpha : float or None, default=None
        A bound of ``|M_ij|``, which decides whether the bound is vacuous.

    Returns
    -------
    Bound
        Of ``|X - M|_F``. There is no unknown constant in it.

    Notes
    -----
    The theorem also asks that the singular vectors of M be spread out (incoherence) and n be of the order of
    ``rank max(d1, d2)`` times a power of the logarithm of ``max(d1, d2)``, with which it holds with a probability
    near 1. Neither is checked; ``probability`` is 1 given both.

    Examples
    --------
    >>> from tribit.paper.theory import candes_plan_bound
    >>> candes_plan_bound((200, 200), 28000, noise=0.1 * 28000**0.5, rank=1, alpha=1.0).vacuous
    True
    """
    d1, d2 = check_matrix(shape, 1.0 if rank is None else rank)
    least = 1.0 if rank is None else rank * (d1 + d2 - rank)
    seen = _check_entries(n, least, d1 * d2, "below the number of free parameters of M")
    noise, p = check_not_negative("noise", noise), seen / (d1 * d2)
    terms = {
        "observed": 2.0 * noise,
        "unobserved": 4.0 * noise * float(np.sqrt((2.0 + p) * min(d1, d2) / p)),
    }
    trivial = np.inf if alpha is None else check_positive("alpha", alpha) ** 2
    return _sum_terms("frobenius", terms, (d1, d2), trivial)


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
        Number of observed entries, sampled from ``Pi`` with replacement: ``d1 + d2 < n < d1 d2``.
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
        ``C``, an absolute constant that the paper does not give.

    Returns
    -------
    Bound
        Of ``|X - M|_Pi^2``, or of ``|X - M|_F^2 / (d1 d2)`` where ``nu`` is given.

    Notes
    -----
    Hayashi et al. call ``|X|_F / (d1 d2)`` the scaled norm that uniform ``Pi`` gives; it is
    ``|X|_F / sqrt(d1 d2)``.

    Examples
    --------
    >>> from tribit.paper.theory import cai_zhou_least_squares_bound
    >>> bound = cai_zhou_least_squares_bound((200, 200), 28000, rank=1, alpha=1.0, sigma=0.1)
    >>> round(bound.value, 2)
    0.12
    """
    d1, d2 = check_matrix(shape, rank)
    seen = _check_entries(n, d1 + d2 + 1, d1 * d2 - 1, "not above d1 + d2")
    alpha, sigma = check_positive("alpha", alpha), check_not_negative("sigma", sigma)
    size = max(alpha, check_positive("tail", tail) * sigma) * alpha
    factor = check_positive("constant", constant) * _check_uniform_part(nu)
    terms = {"complexity": factor * size * float(np.sqrt(rank * (d1 + d2) / seen))}
    probability = 1.0 - 2.0 * float(np.exp(-(d1 + d2)))
    return _sum_terms(_mean_quantity(nu), terms, (d1, d2), alpha**2, probability)


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
        ``C_2`` and ``C_1``, absolute constants that the paper does not give.

    Returns
    -------
    Bound
        Of ``|X - M|_F^2 / (d1 d2)``.

    Notes
    -----
    Hayashi et al. print ``C_alpha = C_2 L_alpha beta_alpha``. Without the factor ``alpha`` the
    bound would not have the unit of ``M^2`` and would depend on the scale of M.

    Examples
    --------
    >>> from tribit.paper.theory import davenport_bound
    >>> round(davenport_bound((200, 200), 28000, rank=1, alpha=1.0).value, 2)
    0.65
    """
    d1, d2 = check_matrix(shape, rank)
    log_entries = (d1 + d2) * float(np.log(d1 * d2))
    least = log_entries if simplified else 0.0
    seen = _check_entries(n, least, d1 * d2, "below (d1 + d2) log(d1 d2)", whole=False)
    alpha = check_positive("alpha", alpha)
    constants = link_constants(link, alpha)
    factor = check_positive("constant", constant) * alpha * constants.L * constants.beta
    rate = float(np.sqrt(rank * (d1 + d2) / seen))
    last = float(np.sqrt(2.0)) if simplified else float(np.sqrt(1.0 + log_entries / seen))
    probability = 1.0 - check_positive("probability_constant", probability_constant) / (d1 + d2)
    return _sum_terms(
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
        Number of observed entries, sampled from ``Pi`` with replacement.
    rank, alpha, link
        As in :func:`davenport_bound`.
    delta : float, default=0.05
        The probability with which the bound may fail, inside (0, 1).
    nu, constant
        As in :func:`cai_zhou_least_squares_bound`.

    Returns
    -------
    Bound
        Of ``|X - M|_Pi^2``, or of ``|X - M|_F^2 / (d1 d2)`` where ``nu`` is given.

    Examples
    --------
    >>> from tribit.paper.theory import cai_zhou_one_bit_bound
    >>> round(cai_zhou_one_bit_bound((200, 200), 28000, rank=1, alpha=1.0).value, 2)
    0.71
    """
    d1, d2 = check_matrix(shape, rank)
    seen = _check_entries(n, 1.0, np.inf, "too small")
    alpha = check_positive("alpha", alpha)
    delta = check_between("delta", delta, 0.0, 1.0, ends="()")
    constants = link_constants(link, alpha)
    factor = check_positive("constant", constant) * _check_uniform_part(nu) * constants.beta
    terms = {
        "complexity": factor * constants.L * alpha * float(np.sqrt(rank * (d1 + d2) / seen)),
        "confidence": factor * constants.U * float(np.sqrt(np.log(4.0 / delta) / seen)),
    }
    return _sum_terms(_mean_quantity(nu), terms, (d1, d2), alpha**2, 1.0 - delta)


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
        ``C``, an absolute constant that the paper does not give. It multiplies the first term alone.

    Returns
    -------
    Bound
        Of ``|X - M|_F^2 / (d1 d2)``. Without data, 1/2 for every entry has a mean square of 1/4 at most.

    Notes
    -----
    Hayashi et al. print ``log(2 delta)``, which is negative for ``delta < 1/2``; it is ``log(2 / delta)``.

    Examples
    --------
    >>> from tribit.paper.theory import hsieh_bound
    >>> bound = hsieh_bound((200, 200), rho=0.5, trace_norm=100.0)
    >>> round(bound.value, 2), bound.vacuous
    (0.54, True)
    """
    d1, d2 = check_matrix(shape, 1.0)
    q, delta = 1.0 - check_rho(rho), check_between("delta", delta, 0.0, 1.0, ends="()")
    t = check_positive("trace_norm", trace_norm)
    s = d1 * d2  # the worst case
    if likes is not None:
        s = check_count("likes", likes, 0, d1 * d2, meaning="the number of entries")
    size = float(np.sqrt(d1) + np.sqrt(d2) + s**0.25)
    terms = {
        "complexity": 2.0 * check_positive("constant", constant) * t * size / (q * d1 * d2),
        "confidence": 6.0 * float(np.sqrt(np.log(2.0 / delta) / (d1 * d2))) / q,
    }
    return _sum_terms("mean square", terms, (d1, d2), 0.25, 1.0 - delta)


def _sum_terms(
    quantity: Quantity,
    terms: dict[str, float],
    shape: tuple[int, int],
    trivial: float,
    probability: float = 1.0,
) -> Bound:
    """Return the sum of the terms as a bound."""
    return Bound(sum(terms.values()), quantity, probability, terms, shape, trivial)


def _mean_quantity(nu: float | None) -> Quantity:
    """Return the bounded mean: the weighted one, or with ``nu`` the plain one."""
    return "weighted mean square" if nu is None else "mean square"


def check_matrix(shape: object, rank: object) -> tuple[int, int]:
    """Return the shape, after checking that a matrix of it can have the rank."""
    d1, d2 = check_shape(shape)
    if not is_number(rank) or not 1.0 <= rank <= min(d1, d2):
        raise InvalidInputError(
            f"rank must be between 1 and {min(d1, d2)}, the smaller side of a {d1} x {d2} matrix; got {rank!r}."
        )
    return d1, d2


def _check_entries(n: Any, least: float, most: float, small: str, *, whole: bool = True) -> float:
    """Return the number of observed entries, a whole number unless it is an expectation."""
    number = float(n) if (is_whole(n) if whole else is_number(n)) else np.nan
    if not 0.0 < number < np.inf:
        word = "whole" if whole else "finite"
        raise InvalidInputError(f"n must be a positive {word} number; got {n!r}.")
    if number < least:
        raise InvalidInputError(
            f"n is {number:g}, {small}, so the theorem does not apply; observe at least {np.ceil(least):g} entries."
        )
    if number > most:
        raise InvalidInputError(
            f"n is {number:g}, more than the theorem allows for a matrix of this shape; pass {most:g} or less."
        )
    return number


def _check_uniform_part(nu: object) -> float:
    """Return ``nu`` of ``pi_ij >= 1 / (nu d1 d2)``, 1 for None."""
    if nu is None:
        return 1.0
    if not is_number(nu) or not 1.0 <= nu < np.inf:
        raise InvalidInputError(f"nu must be a finite number, at least 1; got {nu!r}.")
    return float(nu)
