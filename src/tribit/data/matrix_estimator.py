"""Estimators of a matrix: rows and columns as the fit has seen them, behind scikit-learn's interface."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from tribit.data.axis import AnyArray, Axes


class MatrixEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator of a matrix, whose fit has ``axes_``: how many rows and columns, and the user's ids."""

    axes_: Axes

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes_.shape

    @property
    def row_ids_(self) -> AnyArray | None:
        """The user's ids of the rows, if there are any."""
        return self.axes_.rows.ids

    @property
    def column_ids_(self) -> AnyArray | None:
        """The user's ids of the columns, if there are any."""
        return self.axes_.columns.ids

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self.axes_.columns.size

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
