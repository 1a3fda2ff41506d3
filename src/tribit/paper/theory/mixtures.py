"""Mixtures of the three risks in two coordinates, and the noise and the curvature of their entries.

With ``q = 1 - rho``, ``h = g_PU + g_NU`` and ``kappa = q g_PN + h``, every mixture is, divided by ``kappa``, a sum over
entries of

    c l(x, +1) + (W - c) l(x, -1),   W = t + (1 - t) d / q,   c = t g + (y - t g) d / q,

where ``d`` is 1 if the entry is observed and ``y`` is 1 for a like: ``t = h / kappa`` is the weight of imputation and
``g = g_NU / h`` the imputed label. The mean of ``W`` is 1 and that of ``c`` is ``p = f(M)``. The page *Guarantees for
the mixture* of the manual derives each formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_field, check_positive
from tribit.data.ingest import check_shape
from tribit.errors import InvalidInputError
from tribit.model.links import Link, Logistic, as_link, supremum
from tribit.model.risks import check_gammas, check_rho, t_max

Array = NDArray[np.floating[Any]]


class MixtureCoordinates(NamedTuple):
    """The two numbers on which the minimiser of a mixture depends.

    Parameters
    ----------
    t : float
        Weight of imputation, from 0 (PN alone) to 1 (no PN).
    g : float or None
        The label imputed, from 0 (PU) to 1 (NU); None for PN, which imputes none.

    Examples
    --------
    >>> from tribit.paper.theory import mixture_coordinates
    >>> mixture_coordinates((0.0, 0.5, 0.5), rho=0.3)
    MixtureCoordinates(t=1.0, g=0.5)
    """

    t: float
    g: float | None


def mixture_coordinates(gammas: Any, rho: float) -> MixtureCoordinates:
    """Return ``t = h / (q g_PN + h)`` and ``g = g_NU / h`` of a mixture, with ``h = g_PU + g_NU``.

    A grid of weights in tenths is uneven in ``t``: where few entries are seen, most of any mixture is imputation.
    :func:`tribit.selection.gammas.mixture` is the inverse.

    Parameters
    ----------
    gammas : tuple of three floats
        ``(g_PN, g_PU, g_NU)``, at least 0, with the sum 1.
    rho : float
        Probability that an entry is unobserved, at least 0 and below 1.

    Examples
    --------
    >>> t, g = mixture_coordinates((0.9, 0.05, 0.05), rho=0.937)
    >>> round(t, 2), g
    (0.64, 0.5)
    """
    on_pn, on_pu, on_nu = check_gammas(gammas)
    q, h = 1.0 - check_rho(rho), on_pu + on_nu
    return MixtureCoordinates(h / (q * on_pn + h), on_nu / h if h else None)


@dataclass(frozen=True)
class MixtureProblem:
    """A mixture, the table that it is fitted to, and the assumptions on both.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    gammas : tuple of three floats
        ``(g_PN, g_PU, g_NU)``.
    rho : float
        Known probability that an entry is unobserved, the same for all.
    alpha : float
        Bound of the entries of the hidden matrix and of the estimate.
    link : str or Link, default="logistic"
        ``P(like) = f(M_ij)``.

    Examples
    --------
    >>> from tribit.paper.theory import MixtureProblem
    >>> problem = MixtureProblem((200, 200), (0.0, 0.5, 0.5), rho=0.3, alpha=1.0)
    >>> problem.link
    Logistic(scale=1.0)
    """

    shape: tuple[int, int]
    gammas: tuple[float, float, float]
    rho: float
    alpha: float
    link: Link = Logistic()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_shape(self.shape))
        object.__setattr__(self, "gammas", check_gammas(self.gammas))
        object.__setattr__(self, "rho", check_rho(self.rho))
        object.__setattr__(self, "link", as_link(self.link))
        check_field(self, "alpha", check_positive)

    @cached_property
    def coordinates(self) -> MixtureCoordinates:
        """``t`` and ``g``."""
        return mixture_coordinates(self.gammas, self.rho)

    @property
    def t(self) -> float:
        """Weight of imputation."""
        return self.coordinates.t

    @property
    def g(self) -> float:
        """Imputed label; 1/2 for PN, on which nothing depends."""
        return 0.5 if self.coordinates.g is None else self.coordinates.g

    @property
    def q(self) -> float:
        """Probability that an entry is observed."""
        return 1.0 - self.rho

    @property
    def kappa(self) -> float:
        """``q g_PN + g_PU + g_NU``: the mean of the risk over that of all labels."""
        return self.q * self.gammas[0] + self.gammas[1] + self.gammas[2]

    @property
    def cells(self) -> int:
        """``d1 d2``."""
        return self.shape[0] * self.shape[1]

    @property
    def expected_entries(self) -> float:
        """``n = q d1 d2``."""
        return self.q * self.cells

    @cached_property
    def t_max(self) -> float:
        """The largest ``t`` for which every entry is convex (:func:`t_max`)."""
        return t_max(self.rho, self.g, self.alpha, self.link)

    def slope(self, x: Array) -> Array:
        """Return ``lam = f' / (f (1 - f))``; the scale for the logistic link."""
        return np.asarray(self.link.first(x, -1) - self.link.first(x, 1))

    def imputed(self, x: Array) -> Array:
        """Return ``m = (1 - t) f(x) + t g``, the label imputed at an unobserved entry."""
        return np.asarray((1.0 - self.t) * self.link.probability(x) + self.t * self.g)

    def gradient_variance(self, M: Array, X: Array | None = None) -> Array:
        """Return the variances of the entries of the gradient at X, at M by default, divided by ``kappa^2``.

        ``lam(x)^2 (p (1 - p) / q + (rho / q) (p - m(x))^2)``; at M the part of imputation is
        ``lam^2 t^2 (rho / q) (p - g)^2``.
        """
        X = M if X is None else X
        p = self.link.probability(M)
        noise = p * (1.0 - p) + self.rho * (p - self.imputed(X)) ** 2
        return np.asarray(self.slope(X) ** 2 * noise / self.q)

    def gradient_noise(self, M: Array, A: Array) -> Array:
        """Return ``lam (y~ - p)``, minus the gradient at M divided by ``kappa``, for labels A (0 if unobserved)."""
        seen, like = A != 0, A > 0
        m = self.imputed(M)
        pseudo = m + seen * (like - m) / self.q
        return np.asarray(self.slope(M) * (pseudo - self.link.probability(M)))

    def entry_weights(self, A: Array) -> Array:
        """Return ``W = t + (1 - t) d / q``, the total weight of each entry divided by ``kappa``."""
        return np.asarray(self.t + (1.0 - self.t) * (A != 0) / self.q)

    @cached_property
    def largest_variance(self) -> float:
        """The largest :meth:`gradient_variance` at M over all matrices with entries within alpha."""
        return supremum(self.gradient_variance, self.alpha)

    @cached_property
    def lipschitz(self) -> float:
        """``Lam``, the largest ``lam(x) |y - m(x)|`` over labels and ``|x| <= alpha``; it falls as t grows."""
        return max(
            supremum(lambda x: self.slope(x) * (1.0 - self.imputed(x)), self.alpha),
            supremum(lambda x: self.slope(x) * self.imputed(x), self.alpha),
        )

    @cached_property
    def inverse_curvature(self) -> float:
        """``1 / eta``: the loss of an entry has a curvature of at least ``eta W`` on ``[-alpha, alpha]``.

        ``beta_alpha`` for the logistic link, infinite at ``t_max``. Refused beyond it.
        """
        if isinstance(self.link, Logistic):
            return self.link.beta_alpha(self.alpha)
        if self.t > self.t_max:
            raise InvalidInputError(
                f"The weight of imputation t is {self.t:.3g}, above t_max = {self.t_max:.3g}, so that entries of "
                f"{self.link!r} are not convex within alpha = {self.alpha:g}; give PN more weight."
            )
        least = min(-supremum(self._minus_curvature(share), self.alpha) for share in self._shares())
        return 1.0 / least if least > 0.0 else float("inf")

    def _shares(self) -> list[float]:
        """Return ``c / W`` of an observed like, an observed dislike and, for t > 0, an unobserved entry."""
        t, g, rho = self.t, self.g, self.rho
        seen = 1.0 - t * rho
        shares = [(1.0 - t * g * rho) / seen, -t * g * rho / seen]
        return [*shares, g] if t > 0.0 else shares

    def _minus_curvature(self, share: float) -> Callable[[Array], Array]:
        return lambda x: -(share * self.link.second(x, 1) + (1.0 - share) * self.link.second(x, -1))
