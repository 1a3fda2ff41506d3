"""Probabilities of a fitted model at every entry, for risks that impute them (:func:`tribit.doubly_robust`).

Risks: how much each kind of entry (liked, disliked, unobserved) counts.

Every risk of the paper is a point of one simplex,

    L(X, A) = g_PN L_PN(X, A) + g_PU L_PU(X, A) + g_NU L_NU(X, A),

and for an entry of kind ``a`` it is ``c_plus(a) l(x, +1) + c_minus(a) l(x, -1)``: :meth:`Risk.table`.
PN learns from the observed signs alone; PU counts every entry as a dislike and corrects the observed likes;
NU is its mirror image. ``rho`` is the probability that an entry is unobserved.

Each of the three is a case of :class:`~tribit.model.label_noise.LabelNoise`. To PU what is not an observed like is a
noisy dislike, and a like becomes one at the rate ``rho``; to NU what is not an observed dislike is a noisy like; to PN
an observed sign is a label without noise, unless :func:`pn` is told of some.

Where ``rho`` differs by entry, PN estimates the risk of the entries that people chose to fill. With weights
``1 / q_ij`` (``inverse_power=1``, ``q = 1 - rho``) it estimates the risk of all entries, up to one factor (Schnabel et
al. 2016, "Recommendations as treatments"). PU and NU do so too, by imputing one label everywhere and correcting the
observed entries; :func:`doubly_robust` imputes probabilities that a model gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_between, check_field, is_number
from tribit.errors import InvalidInputError, InvalidTypeError, parameter
from tribit.model.factors import Factors
from tribit.model.label_noise import LabelNoise
from tribit.model.links import Link, as_link

__all__ = ["Missingness", "Risk", "doubly_robust", "nu", "pn", "pnu", "pu", "punu", "tri"]

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Imputation:
    """``f0_ij = f(x0_ij)``: the probability of a like that a model gives to every entry, never stored as a matrix.

    Parameters
    ----------
    factors : Factors
        The model's factors and intercepts, ``x0 = u_i . v_j + b + a_i + c_j``.
    link : Link
        The model's link ``f``.
    """

    factors: Factors = field(repr=False)
    link: Link

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Factors):
            raise InvalidTypeError(
                f"An imputation needs the Factors of a fitted model; got {type(self.factors).__name__}."
            )
        if not isinstance(self.link, Link):
            raise InvalidTypeError(
                f"An imputation needs the Link of a fitted model; got {type(self.link).__name__}."
            )
        if not all(np.all(np.isfinite(part)) for part in vars(self.factors).values()):
            raise InvalidInputError(
                "The factors of an imputation have entries that are not finite: fit the model again."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.factors.row_factors.shape[0], self.factors.column_factors.shape[0]

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuse a matrix of another shape."""
        if self.shape != shape:
            raise InvalidInputError(
                f"The imputed model is {self.shape[0]} x {self.shape[1]} and the observations {shape[0]} x {shape[1]}: "
                "impute by a model of a matrix of the same shape."
            )

    def probability_at(self, rows: Integers, columns: Integers) -> Floats:
        """Return ``f0`` at the given positions."""
        return np.asarray(self.link.probability(self.factors.at(rows, columns)))

    def expected_labels(self, dtype: np.dtype[Any]) -> tuple[ExpectedLabels, ExpectedLabels]:
        """Return the expected labels ``2 f0 - 1`` by tiles, for the matrix and for its transpose."""
        P, Q = (np.ascontiguousarray(part, dtype=dtype) for part in self.factors.product_factors())
        return ExpectedLabels(P, Q, self.link), ExpectedLabels(Q, P, self.link)


@dataclass(frozen=True, eq=False)
class ExpectedLabels:
    """Expected labels ``2 f0 - 1`` in tiles of one orientation: 1 for a sure like, -1 for a sure dislike."""

    P: Floats
    Q: Floats
    link: Link

    def tile(self, rows: slice, columns: slice) -> Floats:
        """Return a tile in the type of the factors."""
        expected = np.asarray(self.link.probability(self.P[rows] @ self.Q[columns].T))
        expected *= 2
        expected -= 1
        return expected


@runtime_checkable
class Missingness(Protocol):
    """A model of why entries are missing: one ``rho`` for each entry, never stored as a matrix."""

    def rho_at(self, rows: Integers, columns: Integers) -> Floats:
        """Return ``P(entry is unobserved)`` at the given positions."""
        ...


@dataclass(frozen=True)
class Risk:
    """A point of the simplex (``pn + pu + nu = 1``) and the share of unobserved entries, ``rho``.

    Parameters
    ----------
    pn, pu, nu : float
        The weights ``g_PN``, ``g_PU``, ``g_NU``: at least 0, summing to 1.
    rho : float or Missingness
        ``P(unobserved)``, in [0, 1); or a model with one value for each entry.
    noise : LabelNoise
        The rates, one for all entries, at which observed signs were flipped. Only with ``pn = 1``.
    inverse_power : float, default=0.0
        PN gives an observed entry the weight ``(1 / q_ij)^inverse_power``, scaled to the mean 1 over the observed
        entries; from 0 (all alike) to 1 (every entry of the matrix alike). Less than 1 trades bias for variance.
    imputed : Imputation or None, default=None
        Where given, PU and NU together impute its ``f0_ij`` in the place of the constant ``nu / (pu + nu)``: see
        :func:`doubly_robust`.
    """

    pn: float
    pu: float
    nu: float
    rho: float | Missingness = 0.0
    noise: LabelNoise = field(default=LabelNoise())
    inverse_power: float = 0.0
    imputed: Imputation | None = None

    def __post_init__(self) -> None:
        for name, weight in zip(
            ("pn", "pu", "nu"), check_gammas((self.pn, self.pu, self.nu)), strict=True
        ):
            object.__setattr__(self, name, weight)
        if not isinstance(self.rho, Missingness):
            object.__setattr__(self, "rho", check_rho(self.rho))
        if not isinstance(self.noise, LabelNoise) or np.ndim(self.noise.contrast):
            raise InvalidTypeError(
                f"noise must be a LabelNoise with one rate for each sign; got {self.noise!r}."
            )
        if self.noise.contrast != 1.0 and self.pn < 1.0:
            raise InvalidInputError(
                "Flipped labels are corrected under PN alone; drop the noise or the weights of PU and NU."
            )
        check_field(self, "inverse_power", lambda name, value: check_between(name, value, 0.0, 1.0))
        if self.imputed is not None and not isinstance(self.imputed, Imputation):
            raise InvalidTypeError(
                f"imputed must be an Imputation or None; got {type(self.imputed).__name__}."
            )
        if self.imputed is not None and not self.unobserved_weight:
            raise InvalidInputError(
                "PN imputes nothing: give PU or NU weight, or leave out imputed."
            )

    @property
    def unobserved_weight(self) -> float:
        """The weight ``g_PU + g_NU`` of the terms that every entry, seen or not, contributes."""
        return self.pu + self.nu

    @property
    def by_label(self) -> bool:
        """Whether what an observed entry adds depends on its label alone."""
        return not isinstance(self.rho, Missingness) and self.imputed is None

    def table(self) -> Floats:
        """Return the 3 x 2 table ``(c_plus, c_minus)`` for ``a = +1, 0, -1``, where it is the same for all entries."""
        if isinstance(self.rho, Missingness) or self.imputed is not None:
            what = "rho" if self.imputed is None else "What is imputed"
            raise InvalidInputError(
                f"{what} differs by entry, so there is no one table; use observed_weights instead."
            )
        like, dislike = self.noise.weights
        # The noisy label of each kind of entry picks the row: what is no like is a dislike to PU, and so on.
        PN = np.array([like, np.zeros(2), dislike])
        PU = LabelNoise(rate_plus=self.rho).weights[[0, 1, 1]]
        NU = LabelNoise(rate_minus=self.rho).weights[[0, 0, 1]]
        return np.asarray(self.pn * PN + self.pu * PU + self.nu * NU)

    def observed_weights(
        self, labels: Integers, rows: Integers, columns: Integers
    ) -> tuple[Floats, Floats]:
        """Return ``(plus, minus)``: what an observed entry adds to ``nu l(x, +1) + pu l(x, -1)``.

        The table's rows for +1 and -1 less its row for 0. ``rho`` enters here only, at the observed entries: a
        like turns PU's noisy dislike into a noisy like, which adds the noise's contrast ``1 / q`` times
        ``pu (l(x, +1) - l(x, -1))``; a dislike the mirror image. Give all observed entries at once: the weights
        of PN are scaled to the mean 1 over those given.
        """
        if isinstance(self.rho, Missingness):
            rho = _checked(self.rho.rho_at(rows, columns), rows, columns)
        else:
            rho = np.asarray(self.rho, dtype=np.float64)
        (like_plus, like_minus), (dislike_plus, dislike_minus) = self.noise.weights
        from_pn = self.pn * self._inverse_weights(rho)
        pu, nu = self._imputed_weights(rows, columns)
        from_pu = pu * LabelNoise(rate_plus=rho).contrast
        from_nu = nu * LabelNoise(rate_minus=rho).contrast
        like = labels > 0
        plus = np.where(like, from_pn * like_plus + from_pu, from_pn * dislike_plus - from_nu)
        minus = np.where(like, from_pn * like_minus - from_pu, from_pn * dislike_minus + from_nu)
        return plus, minus

    def label_weights(self) -> tuple[Floats, Floats]:
        """Return :meth:`observed_weights` of a dislike and of a like, where these depend on the label alone."""
        nowhere = np.zeros(2, dtype=np.intp)
        return self.observed_weights(np.array([-1, 1]), nowhere, nowhere)

    def _inverse_weights(self, rho: Floats) -> Floats | float:
        """Return what PN gives observed entries: 1 on average."""
        if not self.inverse_power or not rho.shape:
            return 1.0
        weights = (1.0 - rho) ** -self.inverse_power
        return np.asarray(weights / np.mean(weights))

    def _imputed_weights(
        self, rows: Integers, columns: Integers
    ) -> tuple[Floats | float, Floats | float]:
        """Return the weights of dislike and like that every entry has before any is observed."""
        if self.imputed is None:
            return self.pu, self.nu
        f0 = self.imputed.probability_at(rows, columns)
        return self.unobserved_weight * (1.0 - f0), self.unobserved_weight * f0


def pn(noise: LabelNoise | None = None) -> Risk:
    """Return the risk of the observed signs alone (Davenport et al. 2014), flipped at known rates where given."""
    return Risk(1.0, 0.0, 0.0, noise=LabelNoise() if noise is None else noise)


def pu(rho: float | Missingness) -> Risk:
    """Return the risk of likes and unobserved entries (Hsieh et al. 2015)."""
    return Risk(0.0, 1.0, 0.0, rho)


def nu(rho: float | Missingness) -> Risk:
    """Return the risk of dislikes and unobserved entries, the mirror image of :func:`pu`."""
    return Risk(0.0, 0.0, 1.0, rho)


def punu(gamma: float, rho: float | Missingness) -> Risk:
    """Return ``(1 - gamma) PU + gamma NU``: every entry is imputed as a like with weight ``gamma``."""
    gamma = check_between("gamma", gamma, 0.0, 1.0)
    return Risk(0.0, 1.0 - gamma, gamma, rho)


def pnu(eta: float, rho: float | Missingness) -> Risk:
    """Return ``(1 - |eta|) PN + |eta| PU`` for ``eta >= 0``, with NU in the place of PU for ``eta < 0``."""
    eta = check_between("eta", eta, -1.0, 1.0)
    return Risk(1.0 - abs(eta), max(eta, 0.0), max(-eta, 0.0), rho)


def tri(pn: float, pu: float, nu: float, rho: float | Missingness) -> Risk:
    """Return ``pn PN + pu PU + nu NU``, any point of the simplex."""
    return Risk(pn, pu, nu, rho)


def doubly_robust(
    factors: Factors, link: Link | str, rho: float | Missingness, *, pn: float = 0.0
) -> Risk:
    """Return the risk in which every entry is imputed by a fitted model and the observed ones are corrected.

    With ``f0_ij`` the model's probability of a like, ``q = 1 - rho`` and ``y = 1`` for a like, 0 for a dislike,

        sum_ij [f0 l(x, +1) + (1 - f0) l(x, -1)]  +  sum_observed (y - f0) / q_ij [l(x, +1) - l(x, -1)],

    times ``1 - pn``, plus ``pn`` times PN. Its mean over masks and labels is the risk of all entries if ``f0`` or
    ``q`` is right (Wang, Zhang, Sun and Qi 2019, "Doubly robust joint learning for recommendation on data missing
    not at random"); :func:`punu` is the case of a constant ``f0``. A model that followed the labels it was fitted to
    leaves too little to correct: a cautious one (a large ridge) is the better guide.

    Parameters
    ----------
    factors : Factors
        The factors of a fitted model, with its intercepts.
    link : Link or str
        Its link.
    rho : float or Missingness
        ``P(unobserved)``, in [0, 1); or a model with one value for each entry.
    pn : float, default=0.0
        The weight of PN beside it, in [0, 1).
    """
    pn = check_between("pn", pn, 0.0, 1.0)
    # Equal halves: the imputed probability moves each entry's share from there.
    half = 0.5 * (1.0 - pn)
    return Risk(pn, half, half, rho, imputed=Imputation(factors, as_link(link)))


def check_gammas(gammas: Any) -> tuple[float, float, float]:
    """Return three weights on the simplex as floats, or say why they are not."""
    try:
        weights = tuple(_number(weight) for weight in gammas)
    except (TypeError, OverflowError):  # an integer may be too large for a float
        raise InvalidTypeError(
            f"{parameter('gammas')} must be three numbers (g_PN, g_PU, g_NU); got {gammas!r}."
        ) from None
    if len(weights) != 3:
        raise InvalidInputError(
            f"{parameter('gammas')} must be three numbers (g_PN, g_PU, g_NU); got {len(weights)}."
        )
    # NaN fails every comparison, so it is caught by asking for what must hold.
    total = sum(weights)
    if not all(weight >= 0.0 for weight in weights) or not abs(total - 1.0) <= 1e-6:
        raise InvalidInputError(
            f"{parameter('gammas')} (g_PN, g_PU, g_NU) must be at least 0 and sum to 1; "
            f"got {weights}, which sums to {sum(weights):g}."
        )
    # Float32 weights sum to 1 only nearly; from here on they do.
    return weights[0] / total, weights[1] / total, weights[2] / total


def check_rho(rho: Any) -> float:
    """Return ``rho`` as a float in [0, 1), or say why it is not."""
    if not is_number(rho):
        raise InvalidTypeError(
            f"{parameter('rho')} must be a number in [0, 1) or a model with rho_at; got {type(rho).__name__}."
        )
    if not 0.0 <= rho < 1.0:
        raise InvalidInputError(
            f"{parameter('rho')}, the probability that an entry is unobserved, must be in [0, 1); got {rho!r}."
        )
    return float(rho)


def _number(value: Any) -> float:
    if not is_number(value):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _checked(rho: Any, rows: Integers, columns: Integers) -> Floats:
    """Return a model's probabilities, each in [0, 1), or name the first that is not."""
    values = np.asarray(rho, dtype=np.float64)
    if values.shape != rows.shape:
        raise InvalidInputError(
            f"rho_at must return one value for each of {rows.size} entries; it returned the shape {values.shape}."
        )
    wrong = np.flatnonzero(~((values >= 0.0) & (values < 1.0)))
    if wrong.size:
        first = wrong[0]
        raise InvalidInputError(
            f"rho_at gave {values[first]!r} for row {rows[first]}, column {columns[first]}; "
            "every probability of being unobserved must be in [0, 1)."
        )
    return values
