"""Constants of a link on ``[-alpha, alpha]`` in the theorems: its steepness, flatness and certainty.

``L_alpha = sup |f'| / (f (1 - f))``, ``beta_alpha = sup f (1 - f) / f'^2`` and
``U_alpha = sup log(1 / (f (1 - f)))``, each over ``|x| <= alpha`` (Davenport, Plan, van den Berg and Wootters 2014,
*1-bit matrix completion*; Cai and Zhou 2013, *A max-norm constrained minimization approach to 1-bit matrix
completion*).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr

from tribit.checks import check_positive
from tribit.errors import InvalidInputError
from tribit.model.links import Link, Logistic, Probit, as_link, hazards


@dataclass(frozen=True)
class LinkConstants:
    """The three constants of one link on ``[-alpha, alpha]``.

    Parameters
    ----------
    L, beta, U : float
        ``L_alpha``, ``beta_alpha`` and ``U_alpha``; infinite where no float64 holds them.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.paper.theory import link_constants
    >>> constants = link_constants(Logistic(), alpha=1.0)
    >>> round(constants.L, 2), round(constants.beta, 2), round(constants.U, 2)
    (1.0, 5.09, 1.63)
    """

    L: float
    beta: float
    U: float


def link_constants(link: str | Link, alpha: float) -> LinkConstants:
    """Return ``L_alpha``, ``beta_alpha`` and ``U_alpha``, by formula for the links of the library, else numerically.

    Parameters
    ----------
    link : str or Link
        As in :class:`~tribit.BinaryMatrixCompletion`.
    alpha : float
        Half the length of the interval.

    Examples
    --------
    >>> link_constants("logistic", 1.0).L
    1.0
    """
    link = as_link(link)
    closed = type(link) in _CLOSED_FORMS
    return closed_form_constants(link, alpha) if closed else numeric_constants(link, alpha)


def closed_form_constants(link: str | Link, alpha: float) -> LinkConstants:
    """Return the constants by formula.

    With ``z = alpha scale``, the logistic link has ``L = scale``, ``beta = 4 cosh(z / 2)^2 / scale^2`` and
    ``U = 2 log(2 cosh(z / 2))``. With ``z = alpha / sigma`` and ``h = phi / Phi``, the probit link has
    ``L = (h(z) + h(-z)) / sigma``, ``beta = sigma^2 / (h(z) h(-z))`` and ``U = -log Phi(z) - log Phi(-z)``: all
    suprema are at the ends of the interval.

    Parameters
    ----------
    link : Logistic or Probit, or the name of one
        The link.
    alpha : float
        Half the length of the interval.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.paper.theory import closed_form_constants
    >>> closed_form_constants(Logistic(scale=2.0), 1.0).L
    2.0
    """
    link = as_link(link)
    formula = _CLOSED_FORMS.get(type(link))
    if formula is None:
        known = " and ".join(kind.__name__ for kind in _CLOSED_FORMS)
        raise InvalidInputError(
            f"Closed forms exist for {known} only, not for {link!r}; use numeric_constants."
        )
    return formula(link, check_positive("alpha", alpha))


def numeric_constants(link: str | Link, alpha: float) -> LinkConstants:
    """Return the constants of any link, by a search over the interval.

    Parameters
    ----------
    link : str or Link
        Any link with a smooth ``f``.
    alpha : float
        Half the length of the interval.

    Returns
    -------
    LinkConstants
        The largest values on a grid of 2001 points, refined around the best of them.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.paper.theory import numeric_constants
    >>> round(numeric_constants(Logistic(scale=2.0), 1.0).L, 3)
    2.0
    """
    link = as_link(link)
    # log(1 / (f (1 - f))) is the sum of the two losses, which keeps the tails.
    U = link.U_alpha(alpha)
    with np.errstate(over="ignore"):  # an infinite beta is an answer
        return LinkConstants(link.L_alpha(alpha), link.beta_alpha(alpha), U)


def probit_upper_bounds(sigma: float, alpha: float) -> LinkConstants:
    """Return simple upper bounds of the probit link's constants, in which the papers state their rates.

    With ``z = alpha / sigma``: ``L <= 4 (z + 1) / sigma``, ``beta <= pi sigma^2 exp(z^2 / 2)`` and
    ``U <= log 4 + z + z^2 / 2``. Hayashi et al. print ``U <= (z + 1)^2``, which
    fails below ``z = 0.187``: ``U`` begins at ``log 4``. Ours holds everywhere, as ``dU/dz = h(-z) - h(z) <= z + 1``.

    Parameters
    ----------
    sigma : float
        The scale of :class:`~tribit.Probit`.
    alpha : float
        Half the length of the interval.

    Examples
    --------
    >>> from tribit.paper.theory import probit_upper_bounds
    >>> round(probit_upper_bounds(sigma=1.0, alpha=1.0).U, 2)
    2.89
    """
    sigma = check_positive("sigma", sigma)
    z = check_positive("alpha", alpha) / sigma
    with np.errstate(over="ignore"):
        beta = float(np.pi * sigma**2 * np.exp(np.float64(0.5 * z * z)))
    return LinkConstants(4.0 * (z + 1.0) / sigma, beta, float(np.log(4.0)) + z + 0.5 * z * z)


def _logistic(link: Any, alpha: float) -> LinkConstants:
    z = link.scale * alpha
    with np.errstate(divide="ignore", over="ignore"):  # beyond z = 709 beta is infinite in float64
        beta = np.float64(1.0) / (link.scale**2 * expit(z) * expit(-z))
    return LinkConstants(link.scale, float(beta), float(z + 2.0 * np.log1p(np.exp(-z))))


def _probit(link: Any, alpha: float) -> LinkConstants:
    z = alpha / link.sigma
    upper, lower = (float(hazard[0]) for hazard in hazards(np.array([z])))
    with np.errstate(divide="ignore", over="ignore"):
        beta = float(np.float64(link.sigma**2) / (upper * lower))
    U = -float(log_ndtr(z)) - float(log_ndtr(-z))
    return LinkConstants((upper + lower) / link.sigma, beta, U)


_CLOSED_FORMS: dict[type[Link], Callable[[Any, float], LinkConstants]] = {
    Logistic: _logistic,
    Probit: _probit,
}
