"""Risks: the weights of likes, dislikes and unobserved entries in the objective.

Every risk of the paper is a point of one simplex,

    L(X, A) = g_PN L_PN(X, A) + g_PU L_PU(X, A) + g_NU L_NU(X, A),

and for an entry of kind ``a`` it is ``c_plus(a) l(x, +1) + c_minus(a) l(x, -1)``: :meth:`Risk.table`.
PN uses the observed signs alone. PU counts every entry as a dislike and corrects the observed likes; NU is its mirror
image. ``rho`` is the probability that an entry is unobserved.

Each of the three is a case of :class:`~tribit.model.label_noise.LabelNoise`. Under PU an entry that is not an observed
like is a noisy dislike, and a like becomes one at the rate ``rho``. Under NU an entry that is not an observed dislike
is a noisy like. Under PN an observed sign is a label without noise, unless :func:`pn` is given the noise.

Where ``rho`` differs by entry, PN estimates the risk over self-selected entries. With weights ``1 / q_ij``
(``inverse_power=1``, ``q = 1 - rho``) it estimates the risk over all entries, up to one factor (Schnabel et al. 2016,
"Recommendations as treatments"). PU and NU do so too, as they impute one label everywhere and correct the observed
entries; :func:`doubly_robust` imputes the probabilities of a fitted model (:class:`Imputation`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_between, check_field, check_positive, is_number
from tribit.errors import InvalidInputError, InvalidTypeError, parameter
from tribit.model.factors import Factors
from tribit.model.label_noise import LabelNoise
from tribit.model.links import Link, Logistic, as_link, supremum

__all__ = ["Missingness", "Risk", "doubly_robust", "nu", "pn", "pnu", "pu", "punu", "t_max", "tri"]

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Imputation:
    """``f0_ij = f(x0_ij)``: a fitted model's probability of a like at every entry, never stored as a matrix.

    Parameters
    ----------
    factors : Factors
        The model's factors and intercepts, ``x0 = u_i . v_j + b + a_i + c_j``.
    link : Link
        The model's link ``f``.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Logistic
    >>> from tribit.model.risks import Imputation
    >>> first = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 0]])
    >>> Imputation(first.fitted_.members[0].factors, Logistic()).link
    Logistic(scale=1.0)
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
        """Raise an error for a matrix of another shape."""
        if self.shape != shape:
            raise InvalidInputError(
                f"The imputed model is {self.shape[0]} x {self.shape[1]} and the observations {shape[0]} x {shape[1]}: "
                "impute with a model of the same shape."
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
    """Expected labels ``2 f0 - 1`` by tiles, in one orientation: 1 for a certain like, -1 for a certain dislike.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Logistic
    >>> from tribit.model.risks import ExpectedLabels
    >>> P, Q = np.array([[1.0], [-1.0]]), np.array([[2.0]])
    >>> ExpectedLabels(P, Q, Logistic()).P.shape
    (2, 1)
    """

    P: Floats
    Q: Floats
    link: Link

    def tile(self, rows: slice, columns: slice) -> Floats:
        """Return a tile in the dtype of the factors."""
        expected = np.asarray(self.link.probability(self.P[rows] @ self.Q[columns].T))
        expected *= 2
        expected -= 1
        return expected


@runtime_checkable
class Missingness(Protocol):
    """A model of the mask: a ``rho`` for each entry, never stored as a matrix.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Missingness
    >>> from tribit.propensity import row_column
    >>> from tribit.simulate import observe
    >>> import numpy as np
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> isinstance(row_column(seen), Missingness)  # pass it as rho= to an estimator
    True
    """

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
        entries; from 0 (equal weights of observed entries) to 1 (equal weights of all entries). Less than 1 trades bias
        for variance.
    imputed : Imputation or None, default=None
        PU and NU together impute its ``f0_ij`` instead of the constant ``nu / (pu + nu)``: see :func:`doubly_robust`.

    Examples
    --------
    >>> from tribit import tri
    >>> risk = tri(0.6, 0.2, 0.2, rho=0.7)
    >>> risk.pn, risk.pu, risk.nu, risk.rho
    (0.6, 0.2, 0.2, 0.7)
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
                "Flipped labels are corrected under PN alone; leave out the noise or the weights of PU and NU."
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
        """The weight ``g_PU + g_NU`` of the terms of all entries, observed or not."""
        return self.pu + self.nu

    @property
    def by_label(self) -> bool:
        """Whether the weights of an observed entry depend on its label alone."""
        return not isinstance(self.rho, Missingness) and self.imputed is None

    def table(self) -> Floats:
        """Return the 3 x 2 table of ``(c_plus, c_minus)`` for ``a = +1, 0, -1``, if it is the same for all entries."""
        if isinstance(self.rho, Missingness) or self.imputed is not None:
            source = "rho" if self.imputed is None else "The imputed probability"
            raise InvalidInputError(
                f"{source} differs by entry, so that there is no single table: use observed_weights."
            )
        like, dislike = self.noise.weights
        # Rows by the noisy label of each kind of entry: under PU all entries but likes are dislikes, and so on.
        PN = np.array([like, np.zeros(2), dislike])
        PU = LabelNoise(rate_plus=self.rho).weights[[0, 1, 1]]
        NU = LabelNoise(rate_minus=self.rho).weights[[0, 0, 1]]
        return np.asarray(self.pn * PN + self.pu * PU + self.nu * NU)

    def observed_weights(
        self,
        labels: Integers,
        rows: Integers,
        columns: Integers,
        weights: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Return ``(plus, minus)``, the weights of observed entries beyond ``nu l(x, +1) + pu l(x, -1)``.

        The table's rows for +1 and -1 less its row for 0. ``rho`` matters only here: a like turns PU's noisy dislike
        into a noisy like, which adds ``pu (l(x, +1) - l(x, -1))`` times the noise's contrast ``1 / q``; a dislike does
        the opposite under NU. Pass all observed entries at once: the weights of PN are scaled to their mean.

        With ``weights`` w the risk is the sum of the table's row for 0 over unobserved cells and of w times the row of
        the label over observed entries. For w < 1 the rest, 1 - w, of the cell is unobserved. An entry of weight 2 is
        thus two entries, each a cell of its own, and one of weight 0 is an unobserved cell.
        """
        plus, minus = self.corrections(labels, rows, columns, weights)
        if weights is None:
            return plus, minus
        # An entry beyond the first is one more cell, with the terms of all cells.
        pu, nu = self._imputed_weights(rows, columns)
        further = np.maximum(weights - 1.0, 0.0)
        return weights * plus + further * nu, weights * minus + further * pu

    def corrections(
        self, labels: Integers, rows: Integers, columns: Integers, weights: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return ``(plus, minus)`` of single entries; ``weights`` are those of the mean of inverse propensities."""
        if isinstance(self.rho, Missingness):
            rho = _check_probabilities(self.rho.rho_at(rows, columns), rows, columns)
        else:
            rho = np.asarray(self.rho, dtype=np.float64)
        (like_plus, like_minus), (dislike_plus, dislike_minus) = self.noise.weights
        from_pn = self.pn * self._inverse_weights(rho, weights)
        pu, nu = self._imputed_weights(rows, columns)
        from_pu = pu * LabelNoise(rate_plus=rho).contrast
        from_nu = nu * LabelNoise(rate_minus=rho).contrast
        like = labels > 0
        plus = np.where(like, from_pn * like_plus + from_pu, from_pn * dislike_plus - from_nu)
        minus = np.where(like, from_pn * like_minus - from_pu, from_pn * dislike_minus + from_nu)
        return plus, minus

    def label_weights(self) -> tuple[Floats, Floats]:
        """Return :meth:`observed_weights` of a dislike and of a like; only for ``by_label``."""
        nowhere = np.zeros(2, dtype=np.intp)
        return self.observed_weights(np.array([-1, 1]), nowhere, nowhere)

    def _inverse_weights(self, rho: Floats, weights: Floats | None) -> Floats | float:
        """Return the powers of ``1 / q`` of observed entries under PN, of (weighted) mean 1."""
        if not self.inverse_power or not rho.shape:
            return 1.0
        powers = (1.0 - rho) ** -self.inverse_power
        return np.asarray(powers / np.average(powers, weights=weights))

    def _imputed_weights(
        self, rows: Integers, columns: Integers
    ) -> tuple[Floats | float, Floats | float]:
        """Return the imputed weights of dislike and like."""
        if self.imputed is None:
            return self.pu, self.nu
        f0 = self.imputed.probability_at(rows, columns)
        return self.unobserved_weight * (1.0 - f0), self.unobserved_weight * f0


def pn(noise: LabelNoise | None = None) -> Risk:
    """Return the risk of the observed signs (Davenport et al. 2014), corrected for noise with known rates.

    Examples
    --------
    >>> from tribit import pn
    >>> pn().pn
    1.0
    """
    return Risk(1.0, 0.0, 0.0, noise=LabelNoise() if noise is None else noise)


def pu(rho: float | Missingness) -> Risk:
    """Return the risk of likes and unobserved entries (Hsieh et al. 2015).

    Examples
    --------
    >>> from tribit import pu
    >>> risk = pu(rho=0.7)
    >>> risk.pu, risk.rho
    (1.0, 0.7)
    """
    return Risk(0.0, 1.0, 0.0, rho)


def nu(rho: float | Missingness) -> Risk:
    """Return the risk of dislikes and unobserved entries, the mirror image of :func:`pu`.

    Examples
    --------
    >>> from tribit import nu
    >>> nu(rho=0.7).nu
    1.0
    """
    return Risk(0.0, 0.0, 1.0, rho)


def punu(gamma: float, rho: float | Missingness) -> Risk:
    """Return ``(1 - gamma) PU + gamma NU``, which imputes a like with weight ``gamma`` at every entry.

    Examples
    --------
    >>> from tribit import punu
    >>> risk = punu(0.3, rho=0.7)
    >>> risk.pu, risk.nu
    (0.7, 0.3)
    """
    gamma = check_between("gamma", gamma, 0.0, 1.0)
    return Risk(0.0, 1.0 - gamma, gamma, rho)


def pnu(eta: float, rho: float | Missingness) -> Risk:
    """Return ``(1 - |eta|) PN + |eta| PU`` for ``eta >= 0``, and with NU for PU for ``eta < 0``.

    Examples
    --------
    >>> from tribit import pnu
    >>> risk = pnu(-0.1, rho=0.7)
    >>> risk.pn, risk.nu
    (0.9, 0.1)
    """
    eta = check_between("eta", eta, -1.0, 1.0)
    return Risk(1.0 - abs(eta), max(eta, 0.0), max(-eta, 0.0), rho)


def tri(pn: float, pu: float, nu: float, rho: float | Missingness) -> Risk:
    """Return ``pn PN + pu PU + nu NU``, any point of the simplex.

    Examples
    --------
    >>> from tribit import tri
    >>> tri(0.8, 0.1, 0.1, rho=0.9).pn
    0.8
    """
    return Risk(pn, pu, nu, rho)


def doubly_robust(
    factors: Factors, link: Link | str, rho: float | Missingness, *, pn: float = 0.0
) -> Risk:
    """Return the risk that imputes a fitted model's probabilities at every entry and corrects the observed entries.

    With ``f0_ij`` the model's probability of a like, ``q = 1 - rho`` and ``y = 1`` for a like, 0 for a dislike,

        sum_ij [f0 l(x, +1) + (1 - f0) l(x, -1)]  +  sum_observed (y - f0) / q_ij [l(x, +1) - l(x, -1)],

    times ``1 - pn``, plus ``pn`` times PN. Its mean over masks and labels is the risk of all entries if ``f0`` or
    ``q`` is right (Wang, Zhang, Sun and Qi 2019, "Doubly robust joint learning for recommendation on data missing
    not at random"); :func:`punu` is the case of a constant ``f0``. A model that overfits its labels leaves too small
    residuals: prefer one with a large ridge.

    Parameters
    ----------
    factors : Factors
        The factors of a fitted model, with its intercepts.
    link : Link or str
        Its link.
    rho : float or Missingness
        ``P(unobserved)``, in [0, 1); or a model with one value for each entry.
    pn : float, default=0.0
        Weight of PN, in [0, 1).

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Logistic, doubly_robust
    >>> first = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 0]])
    >>> risk = doubly_robust(first.fitted_.members[0].factors, Logistic(), rho=0.25, pn=0.5)
    >>> risk.pn, risk.imputed is not None
    (0.5, True)
    """
    pn = check_between("pn", pn, 0.0, 1.0)
    # The imputed probability replaces the equal shares of PU and NU.
    half = 0.5 * (1.0 - pn)
    return Risk(pn, half, half, rho, imputed=Imputation(factors, as_link(link)))


def check_gammas(gammas: Any) -> tuple[float, float, float]:
    """Return three weights on the simplex as floats; raise an error for others."""
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
    # Comparisons with NaN are false, so that the conditions must hold, not their negations.
    total = sum(weights)
    if not all(weight >= 0.0 for weight in weights) or not abs(total - 1.0) <= 1e-6:
        raise InvalidInputError(
            f"{parameter('gammas')} (g_PN, g_PU, g_NU) must be at least 0 and sum to 1; "
            f"got {weights}, which sums to {sum(weights):g}."
        )
    # Weights in single precision sum to 1 only approximately.
    return weights[0] / total, weights[1] / total, weights[2] / total


def check_rho(rho: object) -> float:
    """Return ``rho`` as a float in [0, 1); raise an error for others."""
    if not is_number(rho):
        raise InvalidTypeError(
            f"{parameter('rho')} must be a number in [0, 1) or a model with rho_at; got {type(rho).__name__}."
        )
    if not 0.0 <= rho < 1.0:
        raise InvalidInputError(
            f"{parameter('rho')}, the probability that an entry is unobserved, must be in [0, 1); got {rho!r}."
        )
    return float(rho)


def _number(value: object) -> float:
    if not is_number(value):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _check_probabilities(rho: object, rows: Integers, columns: Integers) -> Floats:
    """Return the probabilities of a model of the mask, in [0, 1); raise an error for the first other one."""
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


def t_max(rho: float, g: float, alpha: float, link: str | Link = "probit") -> float:
    """Return the largest ``t``, at most 1, up to which the loss of every entry is convex on ``[-alpha, alpha]``.

    With ``r = l''(x, -1) / l''(x, +1)``, an observed like is convex if ``r <= (1 - t g rho) / (t (1 - g) rho)`` and an
    observed dislike if ``1 / r <= (1 - t (1 - g) rho) / (t g rho)``: ``t`` is at most ``1 / (rho (g + (1 - g) sup r))``
    and ``1 / (rho (1 - g + g sup 1 / r))``. The logistic link has ``r = 1``, and 1 is returned.

    Parameters
    ----------
    rho : float
        Probability that an entry is unobserved.
    g : float
        The imputed label, in [0, 1].
    alpha : float
        Bound of the entries.
    link : str or Link, default="probit"
        The link.

    Examples
    --------
    >>> from tribit import Probit
    >>> from tribit.model.risks import t_max
    >>> print(f"{t_max(0.85, 0.5, alpha=1.0, link=Probit(0.1)):.0e}")  # experiment 1 of the paper
    2e-21
    >>> round(t_max(0.85, 0.5, alpha=0.15, link=Probit(0.1)), 2)
    0.5
    >>> t_max(0.85, 0.5, alpha=1.0, link="logistic")
    1.0
    """
    link, rho = as_link(link), check_rho(rho)
    g, alpha = check_between("g", g, 0.0, 1.0), check_positive("alpha", alpha)
    if isinstance(link, Logistic) or rho == 0.0:
        return 1.0
    with np.errstate(divide="ignore"):
        like = supremum(lambda x: link.second(x, -1) / link.second(x, 1), alpha)
        dislike = supremum(lambda x: link.second(x, 1) / link.second(x, -1), alpha)
    # 0 times infinity is 0: a risk that never imputes a label is not bent by it.
    most = [
        rho * (own + (other * ratio if other else 0.0))
        for own, other, ratio in ((g, 1.0 - g, like), (1.0 - g, g, dislike))
    ]
    return min(1.0, *(1.0 / each for each in most if each > 0.0))
