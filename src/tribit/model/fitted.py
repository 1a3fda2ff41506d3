"""The result of a fit: members, whose weighted mean makes predictions.

A member is one fitted model. Its *unknowns* are the solution of the minimisation, and its *factors* those of the
matrix: the same without features, else a linear map of the unknowns (:mod:`tribit.model.features`). Both are stored, as
side features are not.

Methods change rows; columns are the rows of the transposed fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.checks import check_fitted
from tribit.data.axis import Axes, Axis, Positions
from tribit.data.observations import Observations
from tribit.display import Summarised
from tribit.errors import InvalidInputError, InvalidTypeError, parameter
from tribit.model.calibration import Calibrator, Isotonic
from tribit.model.factors import Factors
from tribit.model.features import (
    FeatureMap,
    FeatureRegression,
    FeatureRegressions,
    mask_of,
    with_feature_regressions,
)
from tribit.model.risks import Imputation, Integers, Missingness, Risk
from tribit.model.scores import HasScores, Scores, as_scores
from tribit.model.spec import ModelSpec

__all__ = ["LIKE", "Fitted", "HasFitted", "Member", "as_fitted", "imputation_of"]

Array = NDArray[np.floating[Any]]
#: Factors and biases of some rows.
Pair: TypeAlias = tuple[Array, Array]

#: Meaning of the probabilities where likes and dislikes were observed.
LIKE = "a like"
#: Largest difference, relative to the largest factor, between a row without entries or features and an unseen one.
UNSEEN_TOLERANCE = 1e-4
#: Most rows over which a model of the mask is averaged, by column, for the rho of a new row.
SAMPLED_ROWS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Member(Summarised):
    """One fitted model.

    Attributes
    ----------
    spec : ModelSpec
        The model, with all chosen hyperparameters.
    unknowns : Factors
        The solution of the minimisation: own parts of the rows, then coefficients of their features.
    factors : Factors
        The factors of the matrix.
    maps : (FeatureMap, FeatureMap)
        Maps to the features of rows and of columns.
    own_rank : int
        Number of latent factors of the fit; further ones are those of a regression that was added afterwards.
    weight : float
        Relative weight in the mean of the members.
    mean_totals : (float, float)
        Mean numbers (or total weights) of the entries of the rows and of the columns of the fit that have any, the
        units of ``l2_power``.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.fitted_.members[0].spec.rank
    1
    """

    spec: ModelSpec
    unknowns: Factors
    factors: Factors
    maps: tuple[FeatureMap, FeatureMap]
    own_rank: int
    weight: float = 1.0
    mean_totals: tuple[float, float] = (1.0, 1.0)

    def facts(self) -> dict[str, str]:
        """Return model, shape and weight."""
        return {"model": str(self.spec), **self.factors.facts(), "weight": f"{self.weight:g}"}

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.factors.row_factors.shape[0], self.factors.column_factors.shape[0]

    @cached_property
    def transposed(self) -> Member:
        """The same model of the transposed matrix."""
        return replace(
            self,
            spec=_with_rho(self.spec, _transposed_rho(self.spec.rho)),
            unknowns=self.unknowns.transposed,
            factors=self.factors.transposed,
            maps=self.maps[::-1],
            mean_totals=self.mean_totals[::-1],
        )

    def without_regression(self) -> Member:
        """Return the model without the latent factors of a regression."""
        k = self.own_rank
        return replace(self, factors=self.factors.truncate(k), unknowns=self.unknowns.truncate(k))

    def feature_terms(self, design: Any) -> Pair:
        """Return the contribution of features to the rows of a design."""
        n = self.shape[0]
        return (
            design.shared_terms(self.unknowns.row_factors[n:]),
            design.shared_terms(self.unknowns.row_intercepts[n:]),
        )

    def implicit_terms(self, mask: sp.csr_array) -> Pair:
        """Return the contribution of implicit features to the rows of a mask."""
        n = self.shape[0]
        z, a = self.unknowns.row_factors[n:], self.unknowns.row_intercepts[n:]
        activity = self.maps[0].activity
        if activity is None:
            return np.zeros((mask.shape[0], z.shape[1])), np.zeros(mask.shape[0])
        block = activity.block(mask, 0.0)
        return block.times(z[: block.width]), block.times(a[: block.width])

    def side_terms(self, axis: Axis, table: object) -> Pair:
        """Return the contribution of side features to new rows."""
        n_rows, n_columns = self.shape
        width = 0 if self.maps[0].activity is None else n_columns
        side = replace(self.maps[0], activity=None).design(
            sp.csr_array((axis.size, n_columns)), axis, table
        )
        return (
            side.shared_terms(self.unknowns.row_factors[n_rows + width :]),
            side.shared_terms(self.unknowns.row_intercepts[n_rows + width :]),
        )

    def fitted_side_terms(self, entries: Observations) -> Pair:
        """Return the contribution of side features to the rows of the fit: their factors less all other terms."""
        n = self.shape[0]
        factors, intercepts = self.implicit_terms(mask_of(entries))
        return (
            self.factors.row_factors - self.unknowns.row_factors[:n] - factors,
            self.factors.row_intercepts - self.unknowns.row_intercepts[:n] - intercepts,
        )

    def with_rows_at(self, places: Positions, found: Pair, shared: Pair) -> Member:
        """Return the model with new factors and biases of some rows, including the features' terms ``shared``."""
        rows, row_intercepts = self.factors.row_factors.copy(), self.factors.row_intercepts.copy()
        own, own_intercepts = (
            self.unknowns.row_factors.copy(),
            self.unknowns.row_intercepts.copy(),
        )
        rows[places], row_intercepts[places] = found
        own[places], own_intercepts[places] = found[0] - shared[0], found[1] - shared[1]
        return replace(
            self,
            unknowns=replace(self.unknowns, row_factors=own, row_intercepts=own_intercepts),
            factors=replace(self.factors, row_factors=rows, row_intercepts=row_intercepts),
        )

    def with_new_rows(self, found: Pair, shared: Pair) -> Member:
        """Return the model with further rows of these factors and biases, including the features' terms ``shared``."""
        n, d2 = self.shape
        m = found[1].size
        U, a = self.factors.row_factors, self.factors.row_intercepts
        own = replace(
            self.unknowns,
            row_factors=_insert(self.unknowns.row_factors, n, found[0] - shared[0]),
            row_intercepts=_insert(self.unknowns.row_intercepts, n, found[1] - shared[1]),
        )
        if (
            self.maps[1].activity is not None
        ):  # columns have a coefficient for each row, 0 for new ones
            own = replace(
                own,
                column_factors=_insert(own.column_factors, d2 + n, np.zeros((m, U.shape[1]))),
                column_intercepts=_insert(own.column_intercepts, d2 + n, np.zeros(m)),
            )
        return replace(
            self,
            unknowns=own,
            factors=replace(
                self.factors,
                row_factors=_insert(U, n, found[0]),
                row_intercepts=_insert(a, n, found[1]),
            ),
            maps=(self.maps[0], self.maps[1].with_other_rows(m)),
        )

    def with_unseen(self) -> Member:
        """Return the model with one more row and one more column without entries or features, in float64.

        Their own parts are 0. Their implicit features are those of a row of typical activity with popular columns.
        """
        member = replace(
            self, unknowns=self.unknowns.astype("float64"), factors=self.factors.astype("float64")
        )
        # Both from the model without either, so that the new column does not count the new row.
        row, column = (
            each.implicit_terms(sp.csr_array((1, each.shape[1])))
            for each in (member, member.transposed)
        )
        member = member.with_new_rows(row, row)
        return member.transposed.with_new_rows(column, column).transposed


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Summarised):
    """The result of a fit, with all that predictions and explanations need.

    Attributes
    ----------
    axes : Axes
        Rows and columns with the user's ids.
    members : tuple of Member
        The fitted models whose weighted mean makes predictions, the chosen one first; usually one.
    feature_regressions : (FeatureRegression or None, FeatureRegression or None)
        Regressions on the features of rows, and of columns, without entries (:mod:`tribit.model.features`).
    calibrator : Calibrator or None
        The map from ``x`` to a probability; None for the link.
    meaning : str
        The event of the probabilities: "a like", or the identified event where only one label was observed.
    horizon : Isotonic or None
        For likes alone, the map from ``x`` to the probability that a cell that has no entry becomes a like while the
        table grows by a tenth (:mod:`tribit.model.horizon`), calibrated on held-out likes; None without any.
    fitted_shape : (int, int) or None
        Numbers of rows and columns of the fit, if some were added since.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> len(model.fitted_.members), model.fitted_.meaning
    (1, 'a like')
    """

    axes: Axes
    members: tuple[Member, ...]
    feature_regressions: FeatureRegressions = (None, None)
    calibrator: Calibrator | None = None
    meaning: str = LIKE
    fitted_shape: tuple[int, int] | None = None
    horizon: Isotonic | None = None

    def facts(self) -> dict[str, str]:
        """Return shape, model and probabilities."""
        rows, columns = self.shape
        return {
            "rows x columns": f"{rows} x {columns}",
            "model": str(self.spec),
            "fits": str(len(self.members)),
            "probabilities": "the link's" if self.calibrator is None else self.calibrator.name,
            "of": str(self.meaning),
        }

    @property
    def spec(self) -> ModelSpec:
        """The chosen model: that of the first member."""
        return self.members[0].spec

    @property
    def rho(self) -> float | Missingness | None:
        """Probability that an entry is unobserved; None where it is lost, as in a file."""
        found: float | Missingness | None = self.spec.rho
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes.shape

    @property
    def means_like(self) -> bool:
        """Whether probabilities are those of a like."""
        return self.meaning == LIKE

    @cached_property
    def factors(self) -> Factors:
        """The mean of the members' factors."""
        return _mean([each.factors for each in self.members], self.members)

    @cached_property
    def unknowns(self) -> Factors:
        """The mean of the members' unknowns, if these have the same features."""
        found = [each.unknowns for each in self.members]
        if len({tuple(map(len, each.arrays)) for each in found}) > 1:
            raise InvalidInputError(
                "The members have different features, so that their unknowns have no mean: read the unknowns of each "
                "member in fitted_.members."
            )
        return _mean(found, self.members)

    @cached_property
    def scores(self) -> Scores:
        """Scores of every cell, feature regressions included."""
        factors = self.factors
        if self.feature_regressions != (None, None):
            factors = with_feature_regressions(factors, self.feature_regressions)
        return Scores(
            self.axes,
            factors,
            self.spec.link,
            self.calibrator,
            horizon=self.horizon,
            source=self,
        )

    def member(self, number: int) -> Fitted:
        """Return one member as a fit of its own, without the calibrators of the mean."""
        return replace(
            self,
            members=(self.members[number],),
            feature_regressions=(None, None),
            calibrator=None,
            horizon=None,
        )

    @property
    def transposed(self) -> Fitted:
        """The same fit of the transposed matrix."""
        return replace(
            self,
            axes=Axes(self.axes.columns, self.axes.rows),  # with their own names, for errors
            members=tuple(each.transposed for each in self.members),
            feature_regressions=(self.feature_regressions[1], self.feature_regressions[0]),
            fitted_shape=None if self.fitted_shape is None else self.fitted_shape[::-1],
        )

    def with_rho(self, rho: float | Missingness) -> Fitted:
        """Return the fit with a model of the mask, which a file does not keep."""
        members = tuple(replace(each, spec=_with_rho(each.spec, rho)) for each in self.members)
        return replace(self, members=members, fitted_shape=None)

    def with_axes(self, axes: Axes) -> Fitted:
        """Return the fit with other axes; ``fitted_shape`` keeps the shape of the fit."""
        return replace(self, axes=axes, fitted_shape=self.fitted_shape or self.shape)

    @cached_property
    def factors_with_unseen(self) -> Factors:
        """The factors of the scores, with one more row and one more column without entries or features."""
        mean = _mean([each.with_unseen().factors for each in self.members], self.members)
        rows, columns = (
            None
            if each is None
            else each.with_rows(np.zeros((1, each.features.shape[1]))).with_columns(1)
            for each in self.feature_regressions
        )
        return with_feature_regressions(mean, (rows, columns))

    def have_information(
        self, entries: Observations
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each row, and each column, has entries or features; entries are by position in the fit."""
        rows, columns = entries.counts
        return self.rows_have_information(rows), self.transposed.rows_have_information(columns)

    def rows_have_information(self, counts: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return whether each row has entries or features, whose factors are not those of an unseen row."""
        informed = counts > 0
        if self.members[0].maps[0].encoder is not None and not informed.all():
            found, unseen = self.scores.factors, self.factors_with_unseen
            for part, without in (
                (found.row_factors, unseen.row_factors[-1]),
                (found.row_intercepts[:, None], unseen.row_intercepts[-1:]),
            ):
                atol = UNSEEN_TOLERANCE * max(1.0, float(np.abs(part).max(initial=0.0)))
                informed |= ~np.isclose(part, without, rtol=0, atol=atol).all(axis=1)
        return np.asarray(informed)

    def risk(self) -> Risk:
        """Return the risk of the first member, with its imputed probabilities."""
        spec = self.spec
        if spec.rho is None and (spec.uses_unobserved or spec.inverse_power):
            raise unknown_rho()
        return spec.risk(0.0 if spec.rho is None else spec.rho, imputation_of(spec.imputed))

    def row_risks(self) -> tuple[Risk, ...]:
        """Return the risk of a new row under each member, with the mean by column of a model of the mask."""
        known: dict[Any, Risk] = {}
        found = []
        for spec in (each.spec for each in self.members):
            key = spec.gammas, id(spec.rho), id(spec.imputed)
            if key not in known:  # the mean over a model of the mask is slow
                known[key] = self._row_risk(spec)
            found.append(known[key])
        return tuple(found)

    def _row_risk(self, spec: ModelSpec) -> Risk:
        if not spec.uses_unobserved:
            return Risk(1.0, 0.0, 0.0)
        if spec.imputed is not None:
            raise InvalidInputError(
                "The model was fitted with imputed, which has no values for new rows and columns: fit it again."
            )
        if spec.rho is None:
            raise unknown_rho()
        if not isinstance(spec.rho, Missingness):
            return Risk(*spec.gammas, spec.rho)
        return Risk(*spec.gammas, MeanRho.of(spec.rho, self.fitted_shape or self.shape))


@dataclass(frozen=True)
class MeanRho:
    """The probability that an entry of a new row is unobserved: the mean over the rows of the fit, by column."""

    by_column: Array

    @classmethod
    def of(cls, rho: Missingness, shape: tuple[int, int]) -> MeanRho:
        """Return the mean over rows of the fit, or over evenly spaced ones of many."""
        columns = np.arange(shape[1])
        some = np.unique(np.linspace(0, shape[0] - 1, SAMPLED_ROWS).astype(int))
        found = [rho.rho_at(np.full(columns.size, i), columns) for i in some]
        return cls(np.mean(found, axis=0))

    def rho_at(self, rows: Integers, columns: Integers) -> Array:
        """Return the probabilities, for any row; a column added after the fit has the mean of all others."""
        shape = np.broadcast_shapes(np.shape(rows), np.shape(columns))
        by_column = np.append(self.by_column, self.by_column.mean())
        return np.broadcast_to(by_column[np.minimum(columns, self.by_column.size)], shape)


@dataclass(frozen=True)
class TransposedRho:
    """A model of the mask with rows and columns exchanged."""

    of: Missingness

    def rho_at(self, rows: Integers, columns: Integers) -> Array:
        """Return ``P(unobserved)`` of the transposed matrix."""
        return np.asarray(self.of.rho_at(columns, rows))


class HasFitted(HasScores, Protocol):
    """An estimator with the result of its fit."""

    @property
    def fitted_(self) -> Fitted:
        """The result of the fit."""
        ...


def as_fitted(model: HasFitted | Fitted, purpose: str) -> Fitted:
    """Return the result of a fit; an error about a model without one names the ``purpose``."""
    if isinstance(model, Fitted):
        return model
    check_fitted(model)
    if not isinstance(getattr(model, "fitted_", None), Fitted):
        raise InvalidTypeError(
            f"{purpose} needs a fitted BinaryMatrixCompletion; got {type(model).__name__}."
        )
    return model.fitted_


def imputation_of(imputed: Any) -> Imputation | None:
    """Return the probabilities of a fitted model as an imputation; None for None."""
    if imputed is None:
        return None
    scores = as_scores(imputed)
    return Imputation(scores.factors, scores.link)


def unknown_rho() -> InvalidInputError:
    """Return the error about a fit without its rho."""
    return InvalidInputError(
        f"The model was read from a file, which does not keep {parameter('rho')}_, the model of the mask: set "
        "model.rho_ to the one of the fit."
    )


def update_feature_regressions(
    feature_regressions: FeatureRegressions, new: Sequence[Axis], touched: Sequence[Positions]
) -> FeatureRegressions:
    """Return the regressions with new rows and columns, and without the features of rows that have entries now."""
    found: list[FeatureRegression | None] = []
    for side, each in enumerate(feature_regressions):
        if each is not None:
            nothing = np.zeros((new[side].size, each.own.shape[1]))
            each = (
                each.with_rows(nothing).with_columns(new[1 - side].size).without_rows(touched[side])
            )
        found.append(each)
    return found[0], found[1]


def _mean(factors: Sequence[Factors], members: Sequence[Member]) -> Factors:
    return Factors.mean_of(factors, [each.weight for each in members])


def _with_rho(spec: ModelSpec, rho: object) -> ModelSpec:
    return spec if rho is spec.rho else replace(spec, rho=rho)


def _transposed_rho(rho: object) -> Any:
    if isinstance(rho, TransposedRho):
        return rho.of
    return TransposedRho(rho) if isinstance(rho, Missingness) else rho


def _insert(parts: Array, place: int, new: Array) -> Array:
    """Return the parts with new ones at a place, of the same type."""
    return np.concatenate([parts[:place], new.astype(parts.dtype), parts[place:]])
