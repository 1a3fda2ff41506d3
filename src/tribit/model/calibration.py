"""Calibrators: maps from the score ``x`` of an entry to a probability of a like that agrees with held-out labels.

A calibrator never decreases in ``x``, so that rankings and top-N lists stay as they are. It consists of a few arrays
(:meth:`Calibrator.arrays`), from which :func:`calibrator_from` restores it. The functions of ``CALIBRATORS`` fit one to
held-out scores and labels, each entry with its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from tribit.checks import check_field, check_positive
from tribit.data.axis import first_true
from tribit.errors import InvalidInputError
from tribit.metrics.entries import known_probabilities, log_loss
from tribit.model.links import Label, Link, Logistic
from tribit.randomness import RandomState, fold_numbers

Array = NDArray[np.floating[Any]]


class Calibrator(Protocol):
    """A map from ``x`` to the probability of a like that never decreases.

    Examples
    --------
    >>> from tribit.uncertainty import Platt
    >>> calibrator = Platt(2.0, 0.0)  # a Calibrator
    >>> calibrator([-1.0, 0.0, 1.0]).round(2)
    array([0.12, 0.5 , 0.88])
    """

    name: ClassVar[str]

    def __call__(self, x: Array) -> Array:
        """Return the probability of a like at each ``x``."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return the arrays from which :func:`calibrator_from` restores the calibrator, given its link."""
        ...


@dataclass(frozen=True)
class Identity:
    """``P(like) = f(x)``: the model's own probability.

    Parameters
    ----------
    link : Link
        ``f``.

    Examples
    --------
    >>> from tribit.uncertainty import Identity
    >>> Identity()([-1.0, 0.0, 1.0]).round(2)
    array([0.27, 0.5 , 0.73])
    """

    link: Link = field(default=Logistic())
    name: ClassVar[str] = "identity"

    def __call__(self, x: Array) -> Array:
        """Return ``f(x)``."""
        return self.link.probability(np.asarray(x, dtype=np.float64))

    def arrays(self) -> dict[str, Array]:
        """Return no arrays."""
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], link: Link) -> Self:  # noqa: ARG003
        """Return the calibrator of these arrays."""
        return cls(link)


@dataclass(frozen=True)
class Platt:
    """``P(like) = f(slope x + offset)``; see :func:`platt`.

    Parameters
    ----------
    slope : float
        Above 0. Above 1 where the model is underconfident, below 1 where it is overconfident.
    offset : float
        Added to every ``x``.
    link : Link
        ``f``.

    Examples
    --------
    >>> from tribit.uncertainty import Platt
    >>> Platt(slope=2.0, offset=0.5)([-1.0, 0.0, 1.0]).round(2)
    array([0.18, 0.62, 0.92])
    """

    slope: float
    offset: float
    link: Link = field(default=Logistic())
    name: ClassVar[str] = "platt"

    def __post_init__(self) -> None:
        check_field(self, "slope", check_positive)
        if not np.isfinite(self.offset):
            raise InvalidInputError(f"offset must be a finite number; got {self.offset!r}.")

    def __call__(self, x: Array) -> Array:
        """Return ``f(slope x + offset)``."""
        return self.link.probability(self.slope * np.asarray(x, dtype=np.float64) + self.offset)

    def arrays(self) -> dict[str, Array]:
        """Return slope and offset."""
        return {"line": np.array([self.slope, self.offset])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], link: Link) -> Self:
        """Return the calibrator of these arrays."""
        slope, offset = np.asarray(arrays["line"], dtype=np.float64)
        return cls(float(slope), float(offset), link)


@dataclass(frozen=True)
class Beta:
    """``log-odds of P(like) = like_slope log f(x) - dislike_slope log(1 - f(x)) + offset``; see :func:`beta`.

    Parameters
    ----------
    like_slope, dislike_slope : float
        Above 0. They differ where the model is overconfident at one end alone. Two equal ones are a slope of the
        log-odds of ``f(x)``.
    offset : float
        Added to the log-odds.
    link : Link
        ``f``.

    Examples
    --------
    >>> from tribit.uncertainty import Beta
    >>> Beta(like_slope=2.0, dislike_slope=1.0, offset=0.5)([-1.0, 0.0, 1.0]).round(2)
    array([0.14, 0.45, 0.76])
    """

    like_slope: float
    dislike_slope: float
    offset: float
    link: Link = field(default=Logistic())
    name: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        check_field(self, "like_slope", check_positive)
        check_field(self, "dislike_slope", check_positive)
        if not np.isfinite(self.offset):
            raise InvalidInputError(f"offset must be a finite number; got {self.offset!r}.")

    def __call__(self, x: Array) -> Array:
        """Return the probability of a like at each ``x``."""
        terms = log_likelihoods(np.asarray(x, dtype=np.float64), self.link)
        z = self.like_slope * terms[0] + self.dislike_slope * terms[1] + self.offset
        return np.asarray(expit(z))

    def arrays(self) -> dict[str, Array]:
        """Return slopes and offset."""
        return {"beta": np.array([self.like_slope, self.dislike_slope, self.offset])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], link: Link) -> Self:
        """Return the calibrator of these arrays."""
        like, dislike, offset = np.asarray(arrays["beta"], dtype=np.float64)
        return cls(float(like), float(dislike), float(offset), link)


def log_likelihoods(x: Array, link: Link) -> Array:
    """Return ``log f(x)`` and ``-log(1 - f(x))``, which both increase in x; their sum is the log-odds of ``f(x)``."""
    return np.stack([-link.loss(x, 1), link.loss(x, -1)])


@dataclass(frozen=True, eq=False)
class Isotonic:
    """A non-decreasing piecewise linear function of ``x``, constant outside its knots; see :func:`isotonic`.

    Parameters
    ----------
    places : array
        ``x`` of the knots, increasing.
    probabilities : array
        Probability of a like at each knot, non-decreasing, inside (0, 1).

    Examples
    --------
    >>> from tribit.uncertainty import isotonic
    >>> isotonic([-1.0, 0.0, 1.0, 2.0], [-1, 1, -1, 1])([-1.0, 0.5, 2.0]).round(2)
    array([0.33, 0.5 , 0.67])
    """

    places: Array
    probabilities: Array
    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        x, p = (np.asarray(part, dtype=np.float64) for part in (self.places, self.probabilities))
        with np.errstate(over="ignore", invalid="ignore"):
            rising = x.ndim == 1 and x.shape == p.shape and x.size > 0 and np.all(np.diff(x) > 0)
            # Comparisons with NaN are false, so that the conditions must hold, not their negations.
            rising = rising and x[-1] - x[0] < np.inf and abs(x[0]) < np.inf
            rising = rising and np.all(np.diff(p) >= 0) and p[0] > 0.0 and p[-1] < 1.0
        if not rising:
            raise InvalidInputError(
                "places must increase and be finite, and probabilities, one for each, must not decrease and lie inside "
                "(0, 1): fit them with isotonic."
            )
        for name, values in (("places", x), ("probabilities", p)):
            values = values.copy()
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __call__(self, x: Array) -> Array:
        """Return the interpolated probability at each ``x``."""
        return np.interp(np.asarray(x, dtype=np.float64), self.places, self.probabilities)

    def arrays(self) -> dict[str, Array]:
        """Return the knots."""
        return {"places": self.places, "probabilities": self.probabilities}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], link: Link) -> Self:  # noqa: ARG003
        """Return the calibrator of these arrays."""
        return cls(arrays["places"], arrays["probabilities"])


#: Classes of calibrators, by name.
_KINDS: dict[str, Any] = {kind.name: kind for kind in (Identity, Platt, Beta, Isotonic)}


def calibrator_from(name: str, arrays: Mapping[str, Array], link: Link) -> Calibrator:
    """Return the calibrator of that name, from its arrays and the link of its model.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.uncertainty import Platt, calibrator_from
    >>> calibrator_from("platt", Platt(2.0, 0.0).arrays(), Logistic()).slope
    2.0
    """
    if name not in _KINDS:
        raise InvalidInputError(f"There is no calibrator {name!r}; use one of {', '.join(_KINDS)}.")
    try:
        made: Calibrator = _KINDS[name].from_arrays(arrays, link)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The arrays of the {name} calibrator are damaged ({error}); calibrate again."
        ) from None
    return made


#: Most Newton steps (never reached: convergence is quadratic), the relative decrease at which the iteration stops, and
#: the Armijo constant.
MAX_STEPS, GAIN_TOLERANCE, ARMIJO = 100, 1e-12, 1e-4


def identity(
    x: ArrayLike,  # noqa: ARG001
    labels: ArrayLike,  # noqa: ARG001
    weights: ArrayLike | None = None,  # noqa: ARG001
    *,
    link: Link | None = None,
) -> Identity:
    """Return the model's own probabilities, the baseline for other calibrators; the labels are not used.

    Examples
    --------
    >>> from tribit.uncertainty import identity
    >>> identity([0.0], [1])([0.0])
    array([0.5])
    """
    return Identity(Logistic() if link is None else link)


def platt(
    x: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    link: Link | None = None,
    counts: bool = False,
) -> Platt:
    """Fit ``P(like) = f(slope x + offset)`` by maximum a posteriori likelihood, with Newton's method.

        min over slope > 0, offset   sum_t w_t l(slope x_t + offset, label_t)
                                     + slope - log slope + (offset / unit)^2 / 2

    (Platt 1999, "Probabilistic outputs for support vector machines"). A prior replaces Platt's smoothed labels: the
    slope has the Gamma density ``slope exp(-slope)``, whose mode is 1, and the offset is normal around 0 with standard
    deviation ``unit = f^-1(0.73)``, log-odds of 1. The slope is positive and finite for any labels, and few labels
    change little.

    Parameters
    ----------
    x : array-like of shape (n,)
        Scores of held-out entries.
    labels : array-like of shape (n,)
        +1 for a like, -1 for a dislike.
    weights : array-like of shape (n,), optional
        Weights of the entries, at least 0. Only their proportions matter: they are scaled to sum to the effective
        sample size ``(sum w)^2 / sum w^2``.
    link : Link, optional
        ``f``; logistic by default.
    counts : bool, default=False
        Whether the weights are counts of equal entries, which are not scaled.

    Examples
    --------
    >>> overconfident = [-4.0, -4.0, -4.0, 4.0, 4.0, 4.0] * 10
    >>> fitted = platt(overconfident, [-1, -1, 1, 1, 1, -1] * 10)
    >>> round(fitted.slope, 2)
    0.19
    """
    curve = Logistic() if link is None else link
    scores, likes, w = check_calibration_data(x, labels, weights)
    if counts and weights is not None:
        w = np.asarray(weights, dtype=np.float64)
    slope, offset = _fit_slopes(scores[None], likes, w, curve)
    return Platt(float(slope), float(offset), curve)


def beta(
    x: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    link: Link | None = None,
) -> Beta:
    """Fit ``log-odds of P(like) = a log f(x) - b log(1 - f(x)) + c`` by maximum a posteriori likelihood.

    Beta calibration (Kull, Silva Filho and Flach 2017, "Beyond sigmoids"): the curve of two beta densities. It corrects
    a model that is overconfident at one end alone, as where guessing bounds the chance of a right answer from below.
    The priors of both slopes and of the offset are those of :func:`platt`; slopes of 1 and the offset 0 are the link.

    Parameters
    ----------
    x, labels, weights, link
        As in :func:`platt`.

    Examples
    --------
    >>> from tribit.uncertainty import beta
    >>> overconfident = [-4.0, -4.0, -4.0, 4.0, 4.0, 4.0] * 10
    >>> fitted = beta(overconfident, [-1, -1, 1, 1, 1, 1] * 10)
    >>> fitted([-4.0, 4.0]).round(2)
    array([0.32, 1.  ])
    """
    link = Logistic() if link is None else link
    scores, likes, w = check_calibration_data(x, labels, weights)
    like, dislike, offset = _fit_slopes(log_likelihoods(scores, link), likes, w, Logistic())
    return Beta(float(like), float(dislike), float(offset), link)


def _fit_slopes(terms: Array, likes: NDArray[np.bool_], w: Array, curve: Link) -> Array:
    """Return slopes and offset: the minimum over slopes > 0 and the offset, by Newton's method.

        sum_t w_t l(slopes . terms_t + offset, label_t) + sum of (slope - log slope) + (offset / unit)^2 / 2

    Each row of ``terms`` has a slope.
    """
    unit = curve.level(float(expit(1.0)))
    # Likes first: each loss is computed for the label of its entry alone.
    order = np.argsort(~likes, kind="stable")
    design = np.vstack([terms[:, order], np.ones(likes.size)])
    w, n_likes = w[order], int(np.count_nonzero(likes))

    def by_label(term: Callable[[Array, Label], Array], z: Array) -> Array:
        return np.concatenate([term(z[:n_likes], 1), term(z[n_likes:], -1)])

    def value(line: Array) -> float:
        slopes, offset = line[:-1], line[-1]
        if np.any(slopes <= 0.0):
            return np.inf
        prior = float(np.sum(slopes - np.log(slopes)))
        return float(
            np.dot(w, by_label(curve.loss, line @ design)) + prior + (offset / unit) ** 2 / 2
        )

    line = np.append(np.ones(len(terms)), 0.0)
    here = value(line)
    for _ in range(MAX_STEPS):
        z = line @ design
        # The loss of a link that is not log-concave may have negative curvature.
        second = w * np.maximum(by_label(curve.second, z), 0.0)
        gradient = design @ (w * by_label(curve.first, z))
        gradient += np.append(1 - 1 / line[:-1], line[-1] / unit**2)
        curvature = (design * second) @ design.T
        curvature[np.diag_indices_from(curvature)] += np.append(1 / line[:-1] ** 2, 1 / unit**2)
        step = -np.linalg.solve(curvature, gradient)
        gain = -float(gradient @ step)
        if gain <= GAIN_TOLERANCE * max(1.0, abs(here)):
            break
        length = 1.0
        # Until the step is lost in rounding, or is not a number.
        while np.any(np.abs((moved := line + length * step) - line) > 0.0):
            reached = value(moved)
            if reached <= here - ARMIJO * length * gain:
                break
            length *= 0.5
        else:
            break
        line, here = moved, reached
    return line


def isotonic(
    x: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    link: Link | None = None,  # noqa: ARG001
) -> Isotonic:
    """Fit the non-decreasing probabilities with the least squared error.

        min over p_1 <= p_2 <= ...   sum_t w_t (p_t - 1[like_t])^2,     entries in the order of x

    by isotonic regression (Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass
    probability estimates"). It also maximises the likelihood. A like and a dislike are added at the lowest and at the
    highest ``x``, so that no probability is 0 or 1: the rule of succession for the outermost groups.

    Parameters
    ----------
    x, labels, weights
        As in :func:`platt`.
    link : ignored
        The calibrator replaces the link.

    Examples
    --------
    >>> from tribit.uncertainty import isotonic
    >>> isotonic([-1.0, 0.0, 1.0], [-1, -1, 1])([-1.0, 1.0]).round(2)
    array([0.25, 0.67])
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - a tenth of a second, for fits alone

    scores, likes, w = check_calibration_data(x, labels, weights)
    ends = np.repeat([scores.min(), scores.max()], 2)
    scores = np.concatenate([scores, ends])
    likes = np.concatenate([likes, [True, False, True, False]])
    w = np.concatenate([w, np.ones(4)])
    # Equal scores form one group, so that the order of their labels does not matter.
    places, group = np.unique(scores, return_inverse=True)
    total, liked = np.bincount(group, w), np.bincount(group, w * likes)
    kept = total > 0
    places, total, liked = places[kept], total[kept], liked[kept]
    return knots(places, isotonic_regression(liked / total, weights=total).x)


def knots(places: Array, line: Array) -> Isotonic:
    """Return the function that joins the points, kept as the ends of each constant stretch."""
    changes = np.abs(np.diff(line)) > 0
    corner = np.concatenate([[True], changes]) | np.concatenate([changes, [True]])
    return Isotonic(places[corner], line[corner])


#: Functions that fit a calibrator, by its name.
CALIBRATORS: dict[str, Callable[..., Calibrator]] = {
    "identity": identity,
    "platt": platt,
    "beta": beta,
    "isotonic": isotonic,
}
#: The calibrator of "auto": it has the others' lines among its curves, and errs less than steps.
AUTO_CALIBRATOR = Beta.name


def cross_fit_probabilities(
    x: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    link: Link | None = None,
    names: Iterable[str] | None = None,
    folds: int = 5,
    random_state: RandomState = None,
) -> dict[str, Array]:
    """Return the out-of-fold P(like) of each entry by each calibrator, for calibrators fitted to the other folds.

    Parameters
    ----------
    x, labels, weights, link
        As in :func:`platt`.
    names : iterable of str, optional
        Names in ``CALIBRATORS``; all by default.
    folds : int, default=5
        Number of folds.
    random_state : int, Generator, RandomState or None
        Assigns the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.uncertainty import cross_fit_probabilities
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> labels = np.where(rng.random(400) < 1 / (1 + np.exp(-3 * x)), 1, -1)
    >>> sorted(cross_fit_probabilities(x, labels, random_state=0))
    ['beta', 'identity', 'isotonic', 'platt']
    """
    scores, likes, w = check_calibration_data(x, labels, weights)
    curve = Logistic() if link is None else link
    signs = np.where(likes, 1, -1)
    fold = fold_numbers(scores.size, min(folds, scores.size), random_state)
    kinds = CALIBRATORS if names is None else names
    found: dict[str, Array] = {name: np.empty(scores.size) for name in kinds}
    for number in np.unique(fold):
        test = fold == number
        train = ~test
        if not w[train].any():
            train = np.ones_like(test)  # all the weight is in this fold
        for name, probabilities in found.items():
            fitted = CALIBRATORS[name](scores[train], signs[train], w[train], link=curve)
            probabilities[test] = fitted(scores[test])
    return found


def calibration_losses(
    x: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    link: Link | None = None,
    folds: int = 5,
    random_state: RandomState = None,
) -> dict[str, float]:
    """Return the weighted, cross-validated log-loss of each calibrator, by name.

    Parameters
    ----------
    x, labels, weights, link, folds, random_state
        As in :func:`cross_fit_probabilities`.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.uncertainty import calibration_losses
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> labels = np.where(rng.random(400) < 1 / (1 + np.exp(-3 * x)), 1, -1)
    >>> losses = calibration_losses(x, labels, random_state=0)
    >>> min(losses, key=losses.get)
    'platt'
    """
    probabilities = cross_fit_probabilities(
        x, labels, weights, link=link, folds=folds, random_state=random_state
    )
    scores, likes, w = check_calibration_data(x, labels, weights)
    return {
        name: log_loss(known_probabilities(p), scores, likes, w)
        for name, p in probabilities.items()
    }


def check_method(name: object) -> None:
    """Raise an error for an unknown calibrator."""
    if not isinstance(name, str) or name not in CALIBRATORS:
        raise InvalidInputError(
            f"There is no calibrator {name!r}; use one of {', '.join(CALIBRATORS)}."
        )


def check_calibration_data(
    x: object, labels: object, weights: object
) -> tuple[Array, NDArray[np.bool_], Array]:
    """Return finite scores, whether each label is a like, and weights that sum to the effective sample size."""
    scores, given = np.asarray(x, dtype=np.float64), np.asarray(labels)
    if scores.ndim != 1 or scores.shape != given.shape or not scores.size:
        raise InvalidInputError(
            f"x and labels have the shapes {scores.shape} and {given.shape}; give one label for each score, and at "
            "least one."
        )
    if (odd := first_true(~np.isfinite(scores))) is not None:
        raise InvalidInputError(f"position {odd}: the score {scores[odd]} is not a finite number.")
    if (odd := first_true((given != 1) & (given != -1))) is not None:
        raise InvalidInputError(
            f"position {odd}: the label {given[odd]} is not +1 (like) or -1 (dislike)."
        )
    w = np.ones(scores.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != scores.shape or not np.all((w >= 0.0) & (w < np.inf)) or not w.any():
        raise InvalidInputError(
            "weights must be one finite number, at least 0, for each score, and not all of them 0."
        )
    w = w / w.max()  # so that squares do not overflow
    return scores, given > 0, w * (w.sum() / np.sum(w**2))
