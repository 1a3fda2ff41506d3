"""A fitted model as attributes: the base of the estimator, and the model of a file that only answers questions."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

from tribit.data.axis import Axes, HasAxes
from tribit.data.labels import check_rating
from tribit.data.observations import Observations
from tribit.data.reading import Reading
from tribit.model.calibration import Calibrator
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted
from tribit.model.risks import Missingness
from tribit.model.scores import Scores
from tribit.model.spec import AUTO, ModelSpec
from tribit.propensity.names import NAMES, unknown_name_error
from tribit.selection.record import FitRecord, Search
from tribit.solvers import Iteration
from tribit.storage.contents import Contents

__all__ = ["FittedModel"]


def _hyperparameter(name: str) -> Any:
    """Return the property of a hyperparameter of the fitted model."""
    return property(lambda self: getattr(self.fitted_.spec, name), doc=f"The value of {name}.")


class FittedModel(HasAxes):
    """The result of a fit, and the parameters that fold-in and updates use again; no estimator of scikit-learn.

    :class:`tribit.BinaryMatrixCompletion` adds the fit and all other parameters.

    Attributes
    ----------
    fitted_ : Fitted
        The result.
    record_ : FitRecord
        How it was found.
    reading_ : Reading
        The rules by which the table was read, which later matrices are read by too.
    """

    rho: Any = AUTO
    like_at: float | None = None
    n_jobs: int | None = None
    backend: str = AUTO
    device: str = "cpu"
    fitted_: Fitted
    record_: FitRecord
    reading_: Reading

    gammas_ = _hyperparameter("gammas")
    rank_ = _hyperparameter("rank")
    radius_ = _hyperparameter("radius")
    alpha_ = _hyperparameter("alpha")
    l2_ = _hyperparameter("l2")
    l2_power_ = _hyperparameter("l2_power")
    l2_intercept_ = _hyperparameter("l2_intercept")
    implicit_features_ = _hyperparameter("implicit_features")
    l2_implicit_ = _hyperparameter("l2_implicit")
    activity_floor_ = _hyperparameter("activity_floor")
    side_features_ = _hyperparameter("side_features")
    l2_side_ = _hyperparameter("l2_side")

    @classmethod
    def of_contents(cls, contents: Contents) -> FittedModel:
        """Return the model of a file."""
        found = FittedModel()
        found.rho = contents.parameters.get("rho", AUTO)
        found.like_at = contents.parameters.get("like_at")
        found.fitted_, found.record_ = contents.fitted, contents.record
        found.reading_ = Reading.from_json(contents.reading or {})
        found.check_reused()
        return found

    def check_reused(self) -> None:
        """Refuse wrong values of the parameters that are used again after a fit."""
        if self.like_at is not None:
            check_rating("like_at", self.like_at)
        if isinstance(self.rho, str) and self.rho not in (*NAMES, AUTO):
            raise unknown_name_error(self.rho)

    @property
    def axes_(self) -> Axes:  # type: ignore[override]
        """Rows and columns of the fit."""
        return self.fitted_.axes

    def with_fitted(self, fitted: Fitted) -> Self:
        """Return a copy with the result of another fit, and the same parameters and record."""
        again = copy(self)
        again.fitted_ = fitted
        return again

    @property
    def half_life_(self) -> float | None:
        """Days in which the weight of an entry halved in the fit; None for equal weights."""
        found = self.record_.half_life
        return None if found is None or found.decay is None else found.decay.half_life

    def weigh(self, entries: Observations) -> Observations:
        """Return entries with the weights that the fit gives to entries of their times; as they are without times."""
        found = self.record_.half_life
        if found is None or found.decay is None or entries.times is None:
            return entries
        return found.decay.weigh(entries)

    @property
    def scores_(self) -> Scores:
        """Scores of the fit."""
        return self.fitted_.scores

    @property
    def unknowns_(self) -> Factors:
        """The unknowns of the minimisation."""
        return self.fitted_.unknowns

    @property
    def spec_(self) -> ModelSpec:
        """The fitted model with its hyperparameters."""
        return self.fitted_.spec

    @property
    def n_members_(self) -> int:
        """Number of fits whose weighted mean the model is."""
        return len(self.fitted_.members)

    @property
    def calibration_(self) -> Calibrator | None:
        """The map from ``x`` to probabilities."""
        return self.fitted_.calibrator

    @property
    def rho_(self) -> float | Missingness | None:
        """The probability that an entry is unobserved."""
        return self.fitted_.rho

    @rho_.setter
    def rho_(self, rho: float | Missingness) -> None:
        self.fitted_ = self.fitted_.with_rho(rho)

    @property
    def search_(self) -> Search | None:
        """The search."""
        return self.record_.search

    @property
    def history_(self) -> list[Iteration]:
        """A record of each iteration."""
        return list(self.record_.history)

    @property
    def objective_(self) -> float:
        """The objective at the solution."""
        return self.record_.objective

    @property
    def backend_(self) -> str | None:
        """The computation of sums over all entries."""
        return self.record_.backend

    @property
    def n_iter_(self) -> int:
        """Iterations of the refit on all data."""
        return self.record_.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the tolerance was reached."""
        return self.record_.converged

    @property
    def stop_reason_(self) -> str:
        """The reason why the solver stopped."""
        return self.record_.stop_reason
