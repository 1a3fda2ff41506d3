"""Estimators of a matrix: rows and columns as the fit has seen them, behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tribit.data.axis import AnyArray, Axes, Positions
from tribit.data.observations import as_observations


class MatrixEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose fit sets the axes of a matrix: how many rows and columns, and the user's ids."""

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._axes.shape

    @property
    def row_ids_(self) -> AnyArray | None:
        """The user's ids of the rows, if there are any."""
        return self._axes.rows.ids

    @property
    def column_ids_(self) -> AnyArray | None:
        """The user's ids of the columns, if there are any."""
        return self._axes.columns.ids

    def _set_axes(self, axes: Axes) -> None:
        self._axes = axes
        self.n_features_in_ = axes.columns.size

    def _observed(self, X: Any) -> tuple[Positions, Positions, NDArray[np.int8]]:
        """Return the positions here and the labels of the observed entries of ``X``, all of which must be known."""
        check_is_fitted(self)
        entries = as_observations(X, like_at=getattr(self, "like_at", None))
        advice = "hold out entries (Observations.split or folds), not rows"
        i, j = self._axes.places(entries, "the test entries have", advice)
        for axis, theirs, places, given in zip(
            self._axes, entries.axes, (i, j), (entries.rows, entries.columns), strict=True
        ):
            if (places < 0).any():
                axis.find(theirs.names(given))
        return i, j, entries.labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
