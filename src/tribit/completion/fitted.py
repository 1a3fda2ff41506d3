"""A fitted completion: what a fit has set, and the answers that need more than its factors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from tribit.factor_model import FactorModel
from tribit.model.factors import Factors
from tribit.model.slopes import BothSlopes, with_slopes
from tribit.model.spec import ModelSpec

if TYPE_CHECKING:
    from tribit.explain import Explanation


class FittedCompletion(FactorModel):
    """Factors with the model, the unknowns and the features that they come from.

    What is imported where it is asked for here is not needed for predictions.
    """

    def fold_in(
        self,
        X: Any = None,
        *,
        axis: str = "rows",
        prior: str = "fit",
        row_features: Any = None,
        column_features: Any = None,
    ) -> Self:
        """Return a copy of the model with new rows (or columns) added, everything else fixed.

        Each new row is at the minimum of its own part of the objective, implicit and side features included
        (:mod:`tribit.folding`). A row without entries and features is answered by the effects of the columns, and a
        warning says so.

        Parameters
        ----------
        X : Observations, sparse matrix, array or None
            The entries of the new rows, in the columns of the model; with ids where the model has ids. None for rows
            of which features alone are known.
        axis : {"rows", "columns"}, default="rows"
            Which are new. New columns come with entries in the rows of the model.
        prior : {"fit", "new"}, default="fit"
            The ridge of the new rows. "fit" is that of the fit: a row of the fit that is folded in again has the same
            factors. "new" shrinks factors less (0.6 ``l2``) and intercepts more (1.5 ``l2_intercept``): for rows that
            came after the fit, to whose entries the columns have not adapted.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of the new rows (or columns), as in :meth:`fit`.

        Returns
        -------
        BinaryMatrixCompletion
            With the new rows after those it had; this model stays as it is.
        """
        from tribit.folding import fold_in  # noqa: PLC0415 - it takes the estimator

        folded: Self = fold_in(
            self,
            X,
            axis=axis,
            prior=prior,
            row_features=row_features,
            column_features=column_features,
        )
        return folded

    def update(
        self, X: Any, seen: Any, *, row_features: Any = None, column_features: Any = None
    ) -> Self:
        """Return a copy of the model that knows new entries too: rows and columns that have any are solved for again.

        Rows, columns and rows once more, each with the others fixed; new ids become new rows and columns. It is much
        cheaper than a fit and not the same: rows and columns without new entries stay, and nothing is chosen again.

        Parameters
        ----------
        X : Observations, sparse matrix or array
            The new entries. One that was seen before has its new label.
        seen : Observations, sparse matrix or array
            The entries the model was fitted on.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of new rows and columns, as in :meth:`fit`.
        """
        from tribit.folding import update  # noqa: PLC0415

        updated: Self = update(
            self, X, seen, row_features=row_features, column_features=column_features
        )
        return updated

    def explain(self, row: Any, column: Any, seen: Any) -> Explanation:
        """Return what made the score of one cell: the entries of its row, features and intercepts.

        An entry adds the difference that the row's minimum makes with it and without it (:mod:`tribit.explain`).

        Parameters
        ----------
        row, column : id or int
            The cell: ids where the model has ids, else positions from 0.
        seen : Observations, sparse matrix or array
            What the model was fitted on; of a row that was folded in, its entries.

        Returns
        -------
        Explanation
            Printed, a small table.
        """
        from tribit.explain import explain  # noqa: PLC0415 - it takes the estimator

        return explain(self, row, column, seen)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file; :func:`tribit.load` reads it back."""
        from tribit.storage import save  # noqa: PLC0415 - storage makes estimators

        save(self, path)

    def _set_factors(self, factors: Factors) -> None:
        super()._set_factors(factors)
        self._set_slopes((None, None))

    def _set_slopes(self, slopes: BothSlopes) -> None:
        """Keep the slopes on features of rows and columns without entries, beside the factors that were set."""
        self.slopes_ = slopes
        # Once: a single prediction should not copy all factors.
        self._answering = (
            None if slopes == (None, None) else with_slopes(self._fitted_factors(), slopes)
        )

    def _factors(self) -> Factors:
        """Return the factors with the columns of slopes, if there are any."""
        return self._fitted_factors() if self._answering is None else self._answering

    def _set_members(self, specs: tuple[ModelSpec, ...], members: tuple[Factors, ...]) -> None:
        """Keep the unknowns of each fit and their mean, and the models that were fitted."""
        self._set_spec(specs[0])
        self.member_specs_, self.members_, self.n_fits_ = specs, members, len(specs)
        self.unknowns_ = Factors.mean_of(members)

    def _set_spec(self, spec: ModelSpec) -> None:
        """Keep the model that was fitted, and each value that may have been chosen under its own name."""
        self.spec_ = spec
        for name, value in spec.choices().items():
            setattr(self, f"{name}_", value)
