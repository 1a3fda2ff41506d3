"""The search space: which hyperparameters a search may choose, and why not the others, decided once.

Every reason for which a parameter is not searched stands here, with the warnings and refusals that the user sees. A
parameter is free where it is "auto", a fit with the other values reads it, and the solvers can keep what it may become.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tribit import propensity
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, Message, TribitWarning, either, parameter, warn
from tribit.metrics.entries import Array
from tribit.model.calibration import Identity
from tribit.model.fitted import LIKE
from tribit.model.risks import Missingness, check_gammas
from tribit.model.scores import NOT_SEEN_AND_DISLIKED, SEEN_AND_LIKED
from tribit.model.spec import AUTO, CHOOSABLE, ModelSpec, is_auto
from tribit.selection.problem import warn_if_rho_unknown
from tribit.selection.trials import default_solver
from tribit.solvers import Solver

__all__ = [
    "Criterion",
    "SearchSpace",
    "corner_gammas",
    "probability_meaning",
    "single_label",
    "with_fitted_rho",
]

#: Values of the parameters that are not chosen from the data.
DEFAULTS = ModelSpec()
#: Parameters that only a model with features reads.
FEATURE_PARAMETERS = (
    "implicit_features",
    "l2_implicit",
    "activity_floor",
    "side_features",
    "l2_side",
)
#: Least number of entries, in all and of each label, for a search; with fewer none are held out.
MIN_ENTRIES, MIN_ENTRIES_PER_LABEL = 100, 20
#: Least number of entries of a label that was observed alone.
MIN_ENTRIES_ALONE = 100
#: Greatest number of members of a model, where the user names none: each costs a refit on all data.
MAX_MEMBERS = 5
#: Largest probability inside the balls of mixtures, where the user gave no radius.
BALL_PROBABILITY = 0.99


@dataclass(frozen=True)
class Criterion:
    """The measure by which candidates are compared.

    Attributes
    ----------
    scoring : {"log_loss", "error", "auc"}
        The measure of held-out entries.
    target : {"observed", "all"}
        The entries that it is for.
    calibration : str or None
        The calibrator that probabilities will have.
    weights : callable or None
        Weights of held-out entries; None where every entry has the same.
    members : int
        The greatest number of fits whose weighted mean is the model.

    Examples
    --------
    >>> from tribit.selection import Criterion
    >>> Criterion(scoring="auc", target="all").scoring
    'auc'
    """

    scoring: str = "log_loss"
    target: str = "observed"
    calibration: str | None = None
    weights: Callable[[Observations], Array] | None = None
    members: int = 1


@dataclass(frozen=True)
class SearchSpace:
    """The part of a model that a search may choose.

    Attributes
    ----------
    base : ModelSpec
        The user's own values, and first values of the free ones.
    free : frozenset of str
        Names of the free parameters.
    min_rank : int
        The smallest rank that may be chosen.
    criterion : Criterion
        The measure to choose by.
    label : int
        The label that was observed alone, +1 or -1, where unobserved cells count; 0 otherwise.
    meaning : str
        The event that probabilities are of.
    skip_reason : str or None
        Why there is no search; None where there is one.
    mean_weight : float
        Mean weight of the entries, in which penalties are measured; 1 for one label alone, beside unobserved cells.

    Examples
    --------
    >>> from tribit.model.spec import ModelSpec
    >>> from tribit.selection import SearchSpace
    >>> SearchSpace(ModelSpec(rank=5), free=frozenset({"l2"})).free
    frozenset({'l2'})
    """

    base: ModelSpec
    free: frozenset[str] = frozenset()
    min_rank: int = 0
    criterion: Criterion = field(default=Criterion())
    label: int = 0
    meaning: str = LIKE
    skip_reason: str | None = None
    mean_weight: float = 1.0

    @classmethod
    def of(
        cls,
        parameters: Any,
        observations: Observations,
        solver: Solver | None,
        side: SideFeatures | None,
    ) -> Self:
        """Return the space of an estimator's parameters, before any search.

        Parameters
        ----------
        parameters : BinaryMatrixCompletion
            Its parameters.
        observations : Observations
            The entries that the choice is made on.
        solver : solver or None
            The user's own, which may refuse some models; None to suit the model.
        side : SideFeatures or None
            The side features of rows and columns.
        """
        base, free = _Draft(parameters, observations, side).resolve()
        if base.alpha is not None and "radius" in free and solver is None:
            # The ball of this radius keeps every entry within alpha, and Newton's method can keep the ball.
            base = replace(base, radius=base.alpha)
            free -= {"radius"}
        whole = base.with_default_radius()
        used = default_solver(whole) if solver is None else solver
        used.check_supported(whole, whole.constraints())
        free = frozenset() if _is_off(parameters) else _restrict_to_read(base, free - {"rho"})
        _check_imputed(parameters, free)
        criterion = Criterion(
            parameters.scoring,
            parameters.target,
            None if _is_off(parameters) else parameters.calibration,
            None,
            _most_members(parameters),
        )
        reason = None
        if _is_off(parameters) or (not free and not calibrates(parameters)):
            reason = NOTHING_FREE
        elif not _searchable(whole):
            sets = " with ".join(str(each) for each in whole.constraints() if each.restricts)
            reason = f"the search cannot keep {sets}"
        return cls(base, *_restrict_to_solvers(base, free, solver), criterion, skip_reason=reason)

    def over(self, observations: Observations) -> Self:
        """Return the space on some observations: which label was seen alone, and whether there are enough entries."""
        label = single_label(observations) if self.base.uses_unobserved else 0
        criterion = self.criterion
        if label and criterion.scoring == "error":
            # Next to no cell is likelier than not to be seen and liked.
            criterion = replace(criterion, scoring="log_loss")
        reason = self.skip_reason or _too_few(observations, label)
        if label and self.base.has_unbounded_risk and self.base.rho is None:
            reason = Message(
                f"without {parameter('rho')} one label alone says nothing of the other"
            )
        about = probability_meaning(label, self.base) if label else LIKE
        found = replace(self, criterion=criterion, label=label, meaning=about, skip_reason=reason)
        mean_weight = 1.0 if label else sum(observations.label_totals) / len(observations)
        return replace(found, mean_weight=mean_weight)

    def with_rho(
        self, observations: Observations, parameters: object, draws: np.random.Generator
    ) -> Self:
        """Return the space with a model of the mask that is fitted once, for all candidates."""
        base = with_fitted_rho(self.base, observations, parameters, draws)
        criterion = self.criterion
        if criterion.target == "all" and isinstance(base.rho, Missingness):
            criterion = replace(criterion, weights=_InverseProbability(base.rho))
        return replace(self, base=base, criterion=criterion)

    def allows(self, settings: ModelSpec) -> bool:
        """Return whether settings differ from the user's own only where they are free."""
        fixed = {
            name: value for name, value in self.base.choices().items() if name not in self.free
        }
        return settings.rank >= self.min_rank and replace(settings, **fixed) == settings


#: Reason of a fit for which nothing is left open: it has no record of a search.
NOTHING_FREE = "nothing is left open"


class _Draft:
    """Values and free names of an estimator's parameters, decided one group after the other."""

    def __init__(
        self, parameters: Any, observations: Observations, side: SideFeatures | None
    ) -> None:
        self.parameters, self.observations, self.side = parameters, observations, side
        self.label = single_label(observations)
        self.free = frozenset(name for name in CHOOSABLE if is_auto(getattr(parameters, name)))
        self.fixed: dict[str, Any] = {name: getattr(DEFAULTS, name) for name in self.free}

    def resolve(self) -> tuple[ModelSpec, frozenset[str]]:
        """Return the model of all values, and the names that may be searched."""
        for settle in (self._risk, self._rho, self._side_features, self._rank):
            settle()
        return ModelSpec.of(self.parameters, **self.fixed), self.free

    def _risk(self) -> None:
        if "gammas" in self.free and self.parameters.imputed is not None:
            raise InvalidInputError(
                "imputed stands in the place of PU and NU: say in gammas how much weight these have."
            )
        if "gammas" in self.free and self.label:
            self.fixed["gammas"] = corner_gammas(self.label)
            self.free -= {"gammas"}

    def _rho(self) -> None:
        if "rho" not in self.free:
            return
        gammas = check_gammas(self.fixed.get("gammas", self.parameters.gammas))
        if self.label and gammas == corner_gammas(self.label):
            self.fixed["rho"] = 0.0  # only whether a cell was seen and liked is identified
        else:
            weighted = self.parameters.target == "all" or bool(self.parameters.inverse_power)
            self.fixed["rho"] = "low-rank" if weighted else None

    def _side_features(self) -> None:
        if "side_features" in self.free:
            here = self.side is not None and not _asks_for_bounds(self.parameters)
            self.fixed["side_features"] = here and not self.label
            if self.side is not None and self.label:
                warn(
                    TribitWarning(
                        "The features of rows and columns are left out, as likes and dislikes were not both observed: "
                        f"pass {parameter('side_features', True)} to have them as parts of the factors, or fit "
                        "without them."
                    ),
                )
        elif self.side is None and self.parameters.side_features is True:
            given = either(
                "fit row_features or column_features", "--row-features or --column-features"
            )
            raise InvalidInputError(
                f"{parameter('side_features', True)} needs features: give {given}."
            )
        if self.side is None or self.label:
            self.free -= {"side_features", "l2_side"}

    def _rank(self) -> None:
        if "rank" in self.free:
            self.fixed["rank"] = min(DEFAULTS.rank, *self.observations.shape)


def with_fitted_rho(
    spec: ModelSpec, observations: Observations, estimator: Any, draws: np.random.Generator
) -> ModelSpec:
    """Return a model whose ``rho`` is no name: a model of the mask is fitted once, for all candidates and members."""
    if not isinstance(spec.rho, str):
        return spec
    if spec.rho == "constant":
        return replace(spec, rho=None)
    # First: a model of the mask may take seconds to fit.
    spec.with_default_radius().check_shape(observations.shape)
    rho = propensity.fit_propensity(
        spec.rho,
        observations,
        n_jobs=estimator.n_jobs,
        random_state=draws,
        backend=estimator.backend,
    )
    if spec.uses_unobserved:
        warn_if_rho_unknown(observations, spec.rho)  # later the name is not seen any more
    return replace(spec, rho=rho)


def _most_members(parameters: Any) -> int:
    """Return the greatest number of members: one where the user gave the rank, which a stack would multiply."""
    if not is_auto(parameters.members):
        return int(parameters.members)
    return MAX_MEMBERS if is_auto(parameters.rank) else 1


def calibrates(parameters: Any) -> bool:
    """Return whether the user named a calibrator: that takes held-out entries, whatever else is fixed."""
    return parameters.calibration not in (None, AUTO, Identity.name)


def single_label(observations: Observations) -> int:
    """Return the label that was observed alone, +1 or -1; 0 where both were, or none."""
    return int(observations.n_likes > 0) - int(observations.n_dislikes > 0)


def corner_gammas(label: int) -> tuple[float, float, float]:
    """Return the weights of PU for likes alone, of NU for dislikes alone."""
    return (0.0, 1.0, 0.0) if label > 0 else (0.0, 0.0, 1.0)


def probability_meaning(label: int, spec: ModelSpec) -> str:
    """Return the event that the probabilities of a model are of, where one label was observed alone."""
    if spec.has_unbounded_risk:
        what = "a like" if label > 0 else "a dislike"
        return f"a like, if rho is the probability that {what} goes unobserved"
    event = SEEN_AND_LIKED if label > 0 else NOT_SEEN_AND_DISLIKED
    return Message(f"{event}; pass {parameter('rho')} for the probability of a like")


def _is_off(parameters: object) -> bool:
    """Return whether the search is switched off."""
    return not getattr(parameters, "search", True)


def _asks_for_bounds(parameters: Any) -> bool:
    """Return whether the user asked for a ball, a bound or a mixture, beside which a search tries no features."""
    bounds = (value for value in (parameters.radius, parameters.alpha) if not is_auto(value))
    mixed = not is_auto(parameters.gammas) and ModelSpec(gammas=parameters.gammas).uses_unobserved
    return mixed or any(value is not None for value in bounds)


def _check_imputed(parameters: Any, free: frozenset[str]) -> None:
    if parameters.imputed is not None and (free or calibrates(parameters)):
        left = [name for name in CHOOSABLE if name in free] or ["calibration=None"]
        raise InvalidInputError(
            "With imputed nothing can be left to choose, as that model may have seen what a search holds out: pass "
            f"{', '.join(left)}."
        )


def _restrict_to_read(base: ModelSpec, free: frozenset[str]) -> frozenset[str]:
    """Return the free names without those that no fit with these settings reads."""
    asked = {
        name
        for name in ("implicit_features", "side_features")
        if name not in free and getattr(base, name)
    }
    if asked and "gammas" in free:
        # Features that were asked for go with PN, unless a mixture was asked for too.
        free -= {"gammas", "radius", "alpha"}
    if "gammas" not in free and base.has_unbounded_risk:
        free -= {"implicit_features", "side_features"}
    elif "gammas" not in free:
        free -= {"radius", "alpha"}
    unread = {
        frozenset({"l2_intercept"}): not base.intercept,
        frozenset({"l2_power"}): "l2" not in free,  # a given penalty is that of every row
        frozenset({"l2_implicit", "activity_floor"}): "implicit_features" not in free
        and not base.implicit_features,
        frozenset({"l2_side"}): "side_features" not in free and not base.side_features,
        frozenset({"l2", "l2_power", "implicit_features", "l2_implicit", "activity_floor"}): (
            "rank" not in free and not base.rank
        ),
    }
    for names, is_unread in unread.items():
        if is_unread:
            free -= names
    # The floor has a default that is good for most: it is chosen beside other parameters, and no reason for a search.
    return frozenset() if free == {"activity_floor"} else free


def _restrict_to_solvers(
    base: ModelSpec, free: frozenset[str], solver: Solver | None
) -> tuple[frozenset[str], int]:
    """Return the free names without those that the solvers or a fixed ball leave no room for, and the least rank."""
    radius = base.link.level(BALL_PROBABILITY) if base.radius is None else base.radius
    alpha = radius if "alpha" in free else base.alpha
    mixture = replace(
        base,
        gammas=(0.5, 0.5, 0.0),
        radius=radius,
        alpha=alpha,
        implicit_features=False,
        side_features=False,
    )
    asked = default_solver(mixture) if solver is None else solver
    if not (_searchable(mixture) and _can_keep(asked, mixture)):
        free -= {"gammas", "radius"}
    featured = ModelSpec(implicit_features=True, intercept=base.intercept)
    # A solver that declares nothing may know rows alone.
    able = solver is None or (solver.searches_features and _can_keep(solver, featured))
    bounded = base.radius is not None or base.alpha is not None
    # Beside a ball features are not tried; those that were asked for have penalties to choose.
    if not able or (bounded and not base.shares_unknowns):
        free -= set(FEATURE_PARAMETERS)
    least = (0 if solver is None else solver.min_rank) if base.intercept else 1
    return free, least if "rank" in free else 0


def _can_keep(solver: Solver, spec: ModelSpec) -> bool:
    """Return whether a solver can keep a model."""
    return solver.refusal(spec, spec.constraints()) is None


def _searchable(spec: ModelSpec) -> bool:
    """Return whether a model has a solver that is fast enough for a search."""
    solver = default_solver(spec)
    return _can_keep(solver, spec) and solver.searchable


def _too_few(observations: Observations, label: int) -> str | None:
    """Return why no entries can be held out; None where they can."""
    likes, dislikes = observations.n_likes, observations.n_dislikes
    what = "likes" if likes else "dislikes"
    if label:
        if observations.density == 1.0:
            return f"every cell is one of the {what}, so that there is nothing to compare them with"
        if likes + dislikes >= MIN_ENTRIES_ALONE:
            return None
        return f"{likes + dislikes} {what} are too few to hold any out ({MIN_ENTRIES_ALONE} are needed)"
    if not (likes and dislikes):
        return Message(
            f"only {what} were observed, which PN cannot separate; leave out {parameter('gammas')} to compare them "
            "with the cells that were not seen"
        )
    if min(likes, dislikes) < MIN_ENTRIES_PER_LABEL or likes + dislikes < MIN_ENTRIES:
        return (
            f"{likes} likes and {dislikes} dislikes are too few to hold any out "
            f"({MIN_ENTRIES_PER_LABEL} of each and {MIN_ENTRIES} in all are needed)"
        )
    return None


@dataclass(frozen=True)
class _InverseProbability:
    """``1 / q`` at entries."""

    rho: Missingness

    def __call__(self, entries: Observations) -> Array:
        return np.asarray(1.0 / (1.0 - self.rho.rho_at(entries.rows, entries.columns)))
