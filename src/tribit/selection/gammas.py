"""Weights of a mixture without a grid: one slope proposes them, and held-out entries compare them with PN.

Every mixture has two coordinates, the weight of imputation t and the imputed label g (:func:`mixture`). The gradient of
each risk at an entry imputes a label where none was seen and corrects it where one was. PN, scaled by ``1 / q``,
imputes the model's own probability f, PUNU(g) the constant g, and a mixture ``m = (1 - t) f + t g``. The correction
has the variance ``(1 - q) / q E(y - m)^2``, which

    t1 = argmin E(y - (1 - t) f - t g)^2 = E[(f - y)(f - g)] / E(f - g)^2

minimises: the regression of held-out labels on the model's probabilities and the base rate. A calibrated f has t1 = 0,
so that PN alone is best; an overconfident f has t1 > 0. The slope knows neither how far a fit moves with t nor where
the ball, not the noise, limits it, and it is biased upwards: f is that of PN, which is farther from the truth than
that of the mixture. So models are fitted at t of 0, t1 / 3 and t1, and the least held-out log-loss decides. For links
other than the logistic, t1 is at most the t up to which every entry is convex (:func:`tribit.model.risks.t_max`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer
from tribit.backends.threads import single_threaded_blas
from tribit.data.axis import AnyArray
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError, parameter
from tribit.metrics.entries import Array, losses
from tribit.model.risks import t_max
from tribit.model.spec import CHOOSABLE, ModelSpec, is_auto
from tribit.randomness import generator
from tribit.selection.folds import Fold, make_folds
from tribit.selection.record import Candidate
from tribit.selection.significance import mean_difference
from tribit.selection.space import DEFAULTS, single_label, with_fitted_rho
from tribit.selection.trials import Trials, options_of

#: Weights of imputation that are compared with PN, as shares of the slope's.
SHARES_OF_SLOPE = (1.0, 1.0 / 3.0)
#: Smallest weight of imputation that is tried: below it a mixture is PN but for the rounding of a search.
MIN_IMPUTED_SHARE = 1e-3
PN = (1.0, 0.0, 0.0)


def imputed_share(probabilities: Array, labels: NDArray[np.integer[Any]], weights: Array) -> float:
    """Return ``t`` in [0, 1]: the weight of the base rate in the mean of least variance.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.selection.gammas import imputed_share
    >>> overconfident = np.array([0.99, 0.01, 0.99, 0.99])
    >>> round(imputed_share(overconfident, np.array([1, -1, -1, 1]), np.ones(4)), 2)
    0.49
    """
    likes = np.asarray(labels) > 0
    g = float(np.average(likes, weights=weights))
    away = probabilities - g
    square = float(np.average(away**2, weights=weights))
    if square == 0.0:
        return 0.0
    t = float(np.average((probabilities - likes) * away, weights=weights)) / square
    return float(np.clip(t, 0.0, 1.0))


def mixture(share: float, density: float, likes: float) -> tuple[float, float, float]:
    """Return ``(g_PN, g_PU, g_NU)`` that imputes the constant ``likes`` with weight ``share``.

    L_PN sums over the observed entries alone, a share ``density`` of all: ``t = h / (h + density (1 - h))`` with
    ``h = g_PU + g_NU``. In a sparse matrix most of any but the smallest h is imputation.

    Examples
    --------
    >>> from tribit.selection.gammas import mixture
    >>> g_pn, g_pu, g_nu = mixture(0.5, 0.05, 0.6)
    >>> round(g_pn, 4), round(g_pu, 4), round(g_nu, 4)
    (0.9524, 0.019, 0.0286)
    """
    h = share * density / (share * density + 1.0 - share) if share < 1.0 else 1.0
    return 1.0 - h, h * (1.0 - likes), h * likes


@dataclass(frozen=True)
class SuggestedGammas(Answer):
    """Weights of a mixture, and the held-out losses behind them.

    Parameters
    ----------
    gammas : tuple of three floats
        ``(g_PN, g_PU, g_NU)``, for the density of all observed entries.
    t : float
        Their weight of imputation; 0 is PN alone.
    g : float
        The imputed label: the base rate.
    slope : float
        The weight of imputation that the slope proposes, before the cap.
    t_max : float
        The cap: 1 for the logistic link, else the t up to which the loss of every entry is convex.
    n_held_out : int
        Number of held-out entries.
    shares, losses, errors : tuple of float
        The weights of imputation that were compared, their held-out log-losses, and the standard errors of the
        differences from PN.
    weights : tuple of tuples
        ``(g_PN, g_PU, g_NU)`` of each.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> from tribit.selection import suggest_gammas
    >>> votes = [[1, 1, -1, -1, 0], [1, -1, -1, 0, 1], [0, 1, 1, -1, -1], [-1, 0, 1, 1, -1]]
    >>> found = suggest_gammas(BinaryMatrixCompletion(rank=1, random_state=0), votes)
    >>> found.t == found.shares[found.losses.index(min(found.losses))]
    True
    """

    gammas: tuple[float, float, float]
    t: float
    g: float
    slope: float
    t_max: float
    n_held_out: int
    shares: tuple[float, ...]
    losses: tuple[float, ...]
    errors: tuple[float, ...]
    weights: tuple[tuple[float, float, float], ...]

    def table(self) -> dict[str, AnyArray]:
        """Return the curve: a record for each t that was compared, PN first."""
        losses = np.array(self.losses)
        weights = np.array(self.weights)
        return {
            "t": np.array(self.shares),
            "g_pn": weights[:, 0],
            "g_pu": weights[:, 1],
            "g_nu": weights[:, 2],
            "log_loss": losses,
            "difference": losses - losses[0],
            "standard_error": np.array(self.errors),
        }

    def facts(self) -> dict[str, str]:
        """Return the suggestion, the slope and the cap."""
        words = ", ".join(f"{weight:.4g}" for weight in self.gammas)
        return {
            "gammas": f"({words})",
            "t": f"{self.t:.4g}, imputing {self.g:.4g}",
            "slope": f"{self.slope:.4g}, at most {self.t_max:.4g}",
            "held out": f"{self.n_held_out} entries",
        }

    def __str__(self) -> str:
        facts = "\n".join(f"{name}: {value}" for name, value in self.facts().items())
        return f"{facts}\n{super().__str__()}"

    def __repr__(self) -> str:
        return str(self)


def suggest_gammas(model: Any, observations: Any, held_out: Any = None) -> SuggestedGammas:
    """Return the weights of the three risks with the least held-out log-loss among three.

    The slope of held-out labels proposes a weight of imputation (:func:`imputed_share`); models are fitted there, at
    a third of it and without imputation, each from the last one. The imputed label is the base rate.

    Parameters
    ----------
    model : BinaryMatrixCompletion
        An estimator: its parameters, apart from ``gammas``. Those that are "auto" have the values that a fit has
        chosen, or their defaults without a search. A mixture without a ball has the default radius.
    observations : Observations, data frame or matrix
        The entries of the fits.
    held_out : Observations, data frame or matrix, optional
        The entries of the same table that compare the fits. By default a part of ``observations``: a tenth of 40,000
        and more, else a fifth, and up to three fifths in turn below 12,500.

    Returns
    -------
    SuggestedGammas
        With ``gammas``, for the density of ``observations``, and the curve of losses.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Logistic
    >>> from tribit.selection import suggest_gammas
    >>> from tribit.simulate import low_rank_target, observe, quantise
    >>> M = low_rank_target((60, 50), 3, alpha=1.0, random_state=0)
    >>> seen = observe(quantise(M, Logistic(7.0), random_state=1), 0.6, random_state=2)
    >>> model = BinaryMatrixCompletion(link=Logistic(7.0), rank=3, radius=1.0, l2=0.0, random_state=0)
    >>> found = suggest_gammas(model, seen)
    >>> model.set_params(gammas=found.gammas).fit(seen).gammas_ == found.gammas
    True
    """
    observations = _local(as_observations(observations))
    draws = generator(model.random_state)
    spec = with_fitted_rho(_spec_of(model), observations, model, draws)
    if held_out is None:
        folds = make_folds(observations, None, draws)
    else:
        folds = [_fold(observations, _local(as_observations(held_out)))]
    with single_threaded_blas():
        trials = Trials(folds, options_of(model), scoring="log_loss", most=None, deadline=None)
        return _compare(trials, spec, observations)


def proposed_shares(
    trials: Trials, pn: Candidate, spec: ModelSpec, density: float
) -> tuple[float, float, tuple[float, ...]]:
    """Return the slope, its cap, and the weights of imputation to compare with PN, the largest first.

    ``spec`` is a mixture's: its ball bounds the entries. There are none where the slope is about 0.
    """
    x = trials.scores[pn]
    slope = imputed_share(spec.link.probability(x), trials.labels, trials.weights)
    label = float(np.average(trials.labels > 0, weights=trials.weights))
    cap = t_max(1.0 - density, label, _entry_bound(spec, x), spec.link)
    most = min(slope, cap)
    return slope, cap, tuple(s * most for s in SHARES_OF_SLOPE if s * most >= MIN_IMPUTED_SHARE)


def _compare(trials: Trials, spec: ModelSpec, observations: Observations) -> SuggestedGammas:
    """Return the suggestion: PN, and the proposed mixtures."""
    label, density = observations.base_rate, _density(spec, observations)

    def at(t: float) -> tuple[float, float, float]:
        return mixture(t, density, label)

    pn = trials.score(spec)
    ball = replace(spec, gammas=at(0.5)).with_default_radius()
    slope, cap, shares = proposed_shares(trials, pn, ball, density)
    found = [pn, *(trials.score(replace(ball, gammas=at(t))) for t in shares)]
    shares = (0.0, *shares)
    best = int(np.argmin([each.score for each in found]))
    return SuggestedGammas(
        gammas=at(shares[best]),
        t=shares[best],
        g=label,
        slope=slope,
        t_max=cap,
        n_held_out=int(trials.labels.size),
        shares=shares,
        losses=tuple(each.score for each in found),
        errors=tuple(_error(trials, each, pn) for each in found),
        weights=tuple(at(t) for t in shares),
    )


def _error(trials: Trials, candidate: Candidate, other: Candidate) -> float:
    own, others = (
        losses(each.settings.link, trials.scores[each], trials.labels)
        for each in (candidate, other)
    )
    return mean_difference(own, others, trials.weights)[1]


def _spec_of(model: Any) -> ModelSpec:
    """Return the model under PN: the estimator's own values, those of its fit, and defaults."""
    fitted = getattr(model, "fitted_", None)
    source = DEFAULTS if fitted is None else fitted.members[0].spec
    chosen = {
        name: getattr(source, name) for name in CHOOSABLE if is_auto(getattr(model, name, None))
    }
    spec = ModelSpec.of(model, **chosen | {"gammas": PN})
    if spec.side_features:
        raise InvalidInputError(
            f"{parameter('side_features', True)} needs PN alone: pass a model without side features."
        )
    return spec


def _density(spec: ModelSpec, observations: Observations) -> float:
    """Return the probability of being observed: the user's, or the share of observed entries."""
    return 1.0 - spec.rho if isinstance(spec.rho, float) else observations.density


def _entry_bound(spec: ModelSpec, x: Array) -> float:
    """Return a bound of the entries: that of the set; beside biases, which are outside it, at least the largest x."""
    bound = min(spec.row_radius, np.inf if spec.alpha is None else spec.alpha)
    if np.isfinite(bound) and not spec.intercept:
        return bound
    largest = float(np.max(np.abs(x)))
    return max(bound, largest) if np.isfinite(bound) else largest


def _fold(observations: Observations, held_out: Observations) -> Fold:
    """Return the fold of all observations with entries held out by the user."""
    if held_out.shape != observations.shape:
        raise InvalidInputError(
            f"held_out has the shape {held_out.shape} and the observations {observations.shape}; pass entries of the "
            "same table."
        )
    return Fold(observations, held_out, held_out.weights_or_ones, 1.0, 0)


def _local(observations: Observations) -> Observations:
    """Return observations with both labels, on this machine."""
    observations.require_local("suggest_gammas")
    if single_label(observations) or not observations.n_observed:
        raise InvalidInputError(
            "Likes and dislikes must both be observed for a mixture; with one label alone the weights are those of PU "
            "or NU."
        )
    return observations
