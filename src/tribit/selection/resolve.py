"""Resolution of "auto": from the parameters of an estimator to the settings of its fit, by a search."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit import propensity
from tribit.data.features import SideFeatures
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, TribitWarning, either, marked, parameter, warn
from tribit.metrics.entries import Array
from tribit.model.calibrator_fits import CALIBRATORS, platt
from tribit.model.calibrators import Calibrator, Identity, Platt
from tribit.model.factors import Factors
from tribit.model.fitted import LIKE
from tribit.model.links import as_link
from tribit.model.risks import Missingness
from tribit.model.spec import AUTO, CHOOSABLE, ModelSpec, is_auto
from tribit.progress import candidates_bar
from tribit.selection.judgement import one_sided, preferred_calibrator
from tribit.selection.one_label import corner, one_label
from tribit.selection.problem import Problem
from tribit.selection.record import Search
from tribit.selection.regression import regression_factors, with_regression
from tribit.selection.search import Freedom, choose
from tribit.selection.starts import start_of
from tribit.selection.trials import Options, default_solver
from tribit.solvers.refusals import check_kept, refusal_of

#: Values of the parameters that are not chosen from the data.
DEFAULTS = ModelSpec()
#: Parameters that a model without features of either kind does not read.
OF_FEATURES = ("implicit_features", "l2_implicit", "activity_floor", "side_features", "l2_side")


def resolve(
    estimator: Any,
    observations: Observations,
    solver: Any,
    draws: np.random.Generator,
    side: SideFeatures | None = None,
    device: str = "cpu",
) -> tuple[ModelSpec, Search | None]:
    """Return the settings of a fit, and the search for those that were "auto" (None where none was).

    Parameters
    ----------
    estimator : BinaryMatrixCompletion
        Its parameters.
    observations : Observations
        What the choice is made on.
    solver : solver or None
        The one that was asked for, which may not be able to keep every model; None to suit the model.
    draws : Generator
        Draws the held-out entries.
    side : SideFeatures, optional
        What is known of rows and columns.
    device : {"cpu", "cuda"}
        Where the fits of the search are.
    """
    free = frozenset(name for name in CHOOSABLE if is_auto(getattr(estimator, name)))
    fixed: dict[str, Any] = {name: getattr(DEFAULTS, name) for name in free}
    if "gammas" in free and estimator.imputed is not None:
        raise InvalidInputError(
            "imputed stands in the place of PU and NU: say in gammas how much weight these have."
        )
    alone = one_label(observations)
    if alone and "gammas" in free:
        fixed["gammas"] = corner(alone)
        free -= {"gammas"}
    if "rho" in free and alone and tuple(fixed.get("gammas", estimator.gammas)) == corner(alone):
        fixed["rho"] = 0.0  # what is identified: whether a cell was seen and liked
    elif "rho" in free:
        weighted = estimator.target == "all" or bool(estimator.inverse_power)
        fixed["rho"] = "low-rank" if weighted else None
    if "side_features" in free:
        fixed["side_features"] = side is not None and not _bounded(estimator)
        fixed["side_features"] &= not alone
        if side is not None and alone:
            warn(
                TribitWarning(
                    "The features of rows and columns are left out, as likes and dislikes were not both observed: pass "
                    f"{parameter('side_features', True)} to have them as parts of the factors, or fit without them."
                ),
            )
    elif side is None and estimator.side_features is True:
        given = either("fit row_features or column_features", "--row-features or --column-features")
        raise InvalidInputError(f"{parameter('side_features', True)} needs features: give {given}.")
    if side is None or alone:
        free -= {"side_features", "l2_side"}
    if "rank" in free:
        fixed["rank"] = min(DEFAULTS.rank, *observations.shape)
    base = ModelSpec.of(estimator, **fixed)
    if base.alpha is not None and "radius" in free and solver is None:
        # The ball of this radius keeps every entry within alpha, and Newton's method can keep the ball.
        base = replace(base, radius=base.alpha)
        free -= {"radius"}
    whole = base.completed()
    check_kept(default_solver(whole) if solver is None else solver, whole, whole.constraints())
    free = _that_matter(base, free - {"rho"})
    if estimator.imputed is not None and (free or calibrates(estimator)):
        left = [name for name in CHOOSABLE if name in free] or ["calibration=None"]
        raise InvalidInputError(
            "With imputed nothing can be left to choose, as that model may have seen what a search holds out: pass "
            f"{', '.join(left)}."
        )
    if not free and not calibrates(estimator):
        return base, None
    options = options_of(estimator, side, device)
    if not _searchable(whole):
        sets = " with ".join(str(each) for each in whole.constraints() if each.restricts)
        search = Search(
            (),
            None,
            estimator.scoring,
            estimator.target,
            0,
            0,
            0.0,
            f"the search cannot keep {sets}",
            observations.density,
        )
        return base, search
    began = time.perf_counter()
    base = with_fitted_rho(base, observations, estimator, draws)
    weights = None  # where every entry has the same
    if estimator.target == "all" and isinstance(base.rho, Missingness):
        weights = _Inverse(base.rho)
    with candidates_bar(shown=bool(estimator.verbose)) as callback:
        search = choose(
            observations,
            base,
            _within_reach(base, free, solver),
            options,
            target=estimator.target,
            scoring=estimator.scoring,
            calibration=estimator.calibration,
            weights=weights,
            n_candidates=estimator.n_candidates,
            max_time=_left(estimator.max_time, began),
            draws=draws,
            n_fits=estimator.n_fits,
            callback=callback,
        )
    return (base if search.best is None else search.best.settings), search


def _bounded(estimator: Any) -> bool:
    """Return whether the user asked for a ball, a bound or a mixture, beside which a search tries no features."""
    bounds = (value for value in (estimator.radius, estimator.alpha) if not is_auto(value))
    mixed = not is_auto(estimator.gammas) and ModelSpec(gammas=estimator.gammas).mixed
    return mixed or any(value is not None for value in bounds)


def options_of(estimator: Any, side: SideFeatures | None = None, device: str = "cpu") -> Options:
    """Return how the arithmetic of every candidate is done, and what is known of rows and columns."""
    return Options(estimator.dtype, estimator.n_jobs, side, estimator.backend, device)


def _left(max_time: float | None, began: float) -> float | None:
    """Return what a model of the mask has left of the time of a search; a first candidate is tried in any case."""
    if max_time is None:
        return None
    return max(float(max_time) - (time.perf_counter() - began), 1e-6)


def _keeps(solver: Any, spec: ModelSpec) -> bool:
    """Return whether a solver can keep a model."""
    return refusal_of(solver, spec, spec.constraints()) is None


def _searchable(spec: ModelSpec) -> bool:
    """Return whether a model has a solver that is fast enough for a search."""
    solver = default_solver(spec)
    return _keeps(solver, spec) and getattr(solver, "searchable", True)


def _that_matter(base: ModelSpec, free: frozenset[str]) -> frozenset[str]:
    """Take away what no fit with these settings reads: nothing is to be chosen then."""
    asked = {
        name
        for name in ("implicit_features", "side_features")
        if name not in free and getattr(base, name)
    }
    if asked and "gammas" in free:
        # Features that were asked for go with PN, unless a mixture was asked for too.
        free -= {"gammas", "radius", "alpha"}
    if "gammas" not in free and base.unbounded:
        free -= {"implicit_features", "side_features"}
    elif "gammas" not in free:
        free -= {"radius", "alpha"}
    if not base.intercept:
        free -= {"l2_intercept"}
    if "implicit_features" not in free and not base.implicit_features:
        free -= {"l2_implicit", "activity_floor"}
    if "side_features" not in free and not base.side_features:
        free -= {"l2_side"}
    if "rank" not in free and not base.rank:
        free -= {"l2", "implicit_features", "l2_implicit", "activity_floor"}
    # The floor has a default that is good for most: it is chosen beside other parameters, and no reason for a search.
    return frozenset() if free == {"activity_floor"} else free


def _within_reach(base: ModelSpec, free: frozenset[str], solver: Any) -> Freedom:
    """Take away what the solvers, of the search and the one asked for, or a fixed ball leave no room for."""
    radius = base.link.level(0.99) if base.radius is None else base.radius
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
    if not (_searchable(mixture) and _keeps(asked, mixture)):
        free -= {"gammas", "radius"}
    featured = ModelSpec(implicit_features=True, intercept=base.intercept)
    # A solver that declares nothing may know rows alone.
    able = solver is None or (hasattr(solver, "refusal") and _keeps(solver, featured))
    bounded = base.radius is not None or base.alpha is not None
    # Beside a ball features are not tried; those that were asked for have ridges to choose.
    if not able or (bounded and not base.shares_unknowns):
        free -= set(OF_FEATURES)
    least = getattr(solver, "least_rank", 0) if base.intercept else 1
    return Freedom(free, least if "rank" in free else 0)


def with_fitted_rho(
    spec: ModelSpec, observations: Observations, estimator: Any, draws: np.random.Generator
) -> ModelSpec:
    """Return a model whose ``rho`` is no name: a model of the mask is fitted once, for all candidates and members."""
    if not isinstance(spec.rho, str):
        return spec
    if spec.rho == "constant":
        return replace(spec, rho=None)
    spec.completed().check_shape(
        observations.shape
    )  # first: a model of the mask may take seconds to fit
    rho = propensity.fitted(
        spec.rho,
        observations,
        n_jobs=estimator.n_jobs,
        random_state=draws,
        backend=estimator.backend,
    )
    return replace(spec, rho=rho)


@dataclass(frozen=True)
class _Inverse:
    """``1 / q`` at entries."""

    rho: Missingness

    def __call__(self, entries: Observations) -> Array:
        return np.asarray(1.0 / (1.0 - self.rho.rho_at(entries.rows, entries.columns)))


def calibrates(estimator: Any) -> bool:
    """Return whether a calibrator was asked for by name: that takes held-out entries, whatever else is fixed."""
    return estimator.calibration not in (None, AUTO, Identity.name)


def calibrated(estimator: Any, search: Search | None) -> Calibrator | None:
    """Return the calibrator that held-out entries of the search ask for; None for the model's own probabilities."""
    if estimator.calibration is None or search is None:
        return None
    if search.held_out is None or one_sided(search.held_out[1]):
        if calibrates(estimator):
            warn(
                TribitWarning(
                    f"{parameter('calibration', estimator.calibration)} was left out, as too little was held out for "
                    f"it: {marked(search.stop_reason)}."
                ),
            )
        return None
    x, labels, weights = search.held_out
    link = as_link(estimator.link)
    if estimator.calibration in (AUTO, Platt.name) and search.meaning != LIKE:
        # Held-out likes are a part of all: the level of the probabilities is always to be set, and no two scores may
        # become one probability, as they are ranked by it.
        return platt(x, labels, weights, link=link, counts=True)
    name, _ = preferred_calibrator(estimator.calibration, link, x, labels, weights)
    return None if name == Identity.name else CALIBRATORS[name](x, labels, weights, link=link)


def with_chosen_regression(
    unknowns: Factors, observations: Observations, search: Search | None
) -> Factors:
    """Return the unknowns with the columns of the regression that a search of one label has added, if it has."""
    if search is None or search.regression is None:
        return unknowns
    return with_regression(unknowns, regression_factors(observations), search.regression)


def warm_start(problem: Problem, settings: ModelSpec, search: Search | None) -> Factors:
    """Return the initial factors of the last fit: a warm start from the search, else the problem's own."""
    if search is None or not search.ends:
        return problem.start
    return start_of(problem, settings, search.ends)
