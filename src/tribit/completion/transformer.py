"""Factors of rows as features for other estimators: scikit-learn's interface of a transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tribit.errors import InvalidInputError
from tribit.model.scores import read_entries

if TYPE_CHECKING:
    from tribit.model.fitted import Fitted

__all__ = ["RowTransformer"]


class RowTransformer(TransformerMixin):  # type: ignore[misc]
    """Mixin for an estimator with ``fitted_``, whose transformer maps rows to their factors and biases.

    ``transform`` is a reduction of dimension, as in scikit-learn's TruncatedSVD and NMF: any row, of the fit or new, is
    folded in from its own entries. The completed table is no transformation of rows: it is the answer of
    :meth:`tribit.Recommender.complete`.
    """

    fit: Callable[..., Any]
    fitted_: Fitted
    n_jobs: int | None

    def transform(
        self, X: object, *, weights: object = None, row_features: object = None
    ) -> NDArray[np.floating[Any]]:
        """Return the latent factors of the rows of ``X``, and their biases as the last column.

        Each row is folded in from its own entries with everything else fixed, whether the fit had it or not; row ids
        do not matter. Rows of the fit get their factors again, up to the tolerance of the fit.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Entries in the columns of the fit, matched by id if it has ids.
        weights : array-like or sparse matrix, optional
            The weights of the entries, as in :meth:`fit`.
        row_features : data frame, sparse matrix or array, optional
            Features of these rows, as in :meth:`fit`, for a model that was fitted with them.

        Returns
        -------
        array of shape (n_rows, rank + 1), or (n_rows, rank) without biases
        """
        from tribit.folding import (  # noqa: PLC0415 - a fit needs no folding
            entries_at_known,
            factors_of_new_rows,
            warn_of_unknown_rows,
        )

        check_is_fitted(self)
        fitted = self.fitted_
        given = entries_at_known(read_entries(self, X, weights), fitted.axes, "error")
        warn_of_unknown_rows(given, row_features, fitted.axes.columns.name)
        found = factors_of_new_rows(fitted, given, row_features, prior="fit", n_jobs=self.n_jobs)
        biases = [found.row_intercepts[:, None]] if fitted.spec.intercept else []
        return np.hstack([found.row_factors, *biases])

    def fit_transform(
        self, X: object, y: object = None, **options: object
    ) -> NDArray[np.floating[Any]]:
        """Fit the model to ``X`` and return the transformed rows: equal to ``fit(X).transform(X)``.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            As in :meth:`fit`.
        y : ignored
            Labels of the rows for a later step of a pipeline.
        **options
            Other arguments of :meth:`fit`.
        """
        del y  # fit would take it for labels of the entries
        self.fit(X, **options)
        given = {name: options.get(name) for name in ("weights", "row_features")}
        return self.transform(X, **given)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of :meth:`transform`: "factor0", "factor1", ..., "bias".

        ``input_features`` are compared with the columns of the fit.
        """
        check_is_fitted(self)
        if input_features is not None:
            given, size = list(input_features), self.fitted_.axes.columns.size
            if len(given) != size:
                raise InvalidInputError(
                    f"input_features should have length equal to the number of columns of the fit, {size}; got "
                    f"{len(given)}."
                )
            if given != list(getattr(self, "feature_names_in_", given)):
                raise InvalidInputError(
                    "input_features is not equal to feature_names_in_; pass the columns of the fit, or None."
                )
        names = [f"factor{number}" for number in range(self.fitted_.factors.rank)]
        return np.array(names + ["bias"] * self.fitted_.spec.intercept, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # factors have the parameter dtype
        return tags
