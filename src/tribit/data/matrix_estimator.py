"""Estimators of a matrix: rows and columns as the fit has seen them, behind scikit-learn's interface."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from tribit.data.axis import AnyArray, HasAxes


class MatrixEstimator(HasAxes, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator of a matrix, whose fit has ``axes_``: how many rows and columns, and the user's ids."""

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self.axes_.columns.size

    @property
    def feature_names_in_(self) -> AnyArray:
        """Column ids, if all of them are text."""
        ids = self.axes_.columns.ids
        if ids is None or not all(isinstance(each, str) for each in ids.tolist()):
            raise AttributeError("feature_names_in_ is for column ids that are text")
        return ids.astype(object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
