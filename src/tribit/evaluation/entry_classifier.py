"""Matrix completion as classification of entries for scikit-learn's tools: a sample is a pair (row, column)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.data.axis import AnyArray, Axis, eager_frame, frame_column
from tribit.data.ingest import entries_from_ids
from tribit.data.labels import Duplicates
from tribit.data.observations import Observations
from tribit.data.rules import TableRules
from tribit.data.weights import check_weights
from tribit.errors import InvalidInputError, InvalidTypeError, TribitWarning, listed, warn

__all__ = ["EntryClassifier"]

Array = NDArray[np.floating[Any]]

#: Share of pairs with an unknown row or column above which a warning is given: folds were probably not shuffled.
#: Shuffled folds have a few percent.
MAX_UNKNOWN_SHARE = 0.5


class EntryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of entries, given as pairs of a row and a column.

    This is a :class:`BinaryMatrixCompletion` whose samples are entries, so that ``GridSearchCV``, ``cross_val_score``
    and ``Pipeline`` split pairs, where they would split a matrix by rows. The objective is that of the model.
    Tables are often sorted by row, and folds of consecutive entries are then whole rows: pass
    ``cv=StratifiedKFold(5, shuffle=True)`` to hold out entries.

    Parameters
    ----------
    model : BinaryMatrixCompletion or None, default=None
        The model, which is cloned; None for ``BinaryMatrixCompletion()``. Its parameters are set as ``model__rank``.
    duplicates : {"majority", "first", "last", "error"}, default="majority"
        Label of a repeated pair, as in :meth:`Observations.from_pairs`.

    Attributes
    ----------
    model_ : BinaryMatrixCompletion
        The fitted model, with the ids of the pairs.
    classes_ : array of shape (2,)
        The two labels, sorted: -1 and +1, 0 and 1, False and True, "no" and "yes". The second is the like.
    n_features_in_ : int
        2.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, EntryClassifier
    >>> X = np.array([[u, i] for u in ("ann", "bob", "cid", "dee") for i in ("film", "book", "play")])
    >>> y = np.where((X[:, 0] < "c") == (X[:, 1] != "book"), "yes", "no")
    >>> model = BinaryMatrixCompletion((1, 0, 0), rank=1, l2=0.1, l2_intercept=1.0, random_state=0)
    >>> classifier = EntryClassifier(model).fit(X[1:], y[1:])
    >>> classifier.predict([["ann", "film"], ["cid", "book"]]).tolist()
    ['yes', 'yes']
    """

    def __init__(
        self, model: BinaryMatrixCompletion | None = None, *, duplicates: Duplicates = "majority"
    ) -> None:
        self.model = model
        self.duplicates = duplicates

    def set_params(self, **params: object) -> Self:
        """Set parameters by name; parameters of the model, such as ``model__rank``, also if ``model`` is None."""
        if params.get("model", self.model) is None and any(
            name.startswith("model__") for name in params
        ):
            params = {**params, "model": BinaryMatrixCompletion()}
        super().set_params(**params)
        return self

    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Fit the model to labelled pairs.

        Parameters
        ----------
        X : array-like or data frame of shape (n_entries, 2)
            Row and column of each entry: ids of any kind, positions among them.
        y : array-like of shape (n_entries,)
            Their labels, of two kinds.
        sample_weight : array-like of shape (n_entries,), optional
            Their weights, as in :class:`tribit.Observations`; 1 by default. The weights of a repeated pair are added
            up, so that a weight of 2 and a pair that is given twice are the same.
        """
        rows, columns = _pairs(X)
        given = np.asarray(y)
        if given.shape != rows.shape:
            raise InvalidInputError(
                f"y has the shape {given.shape} for {rows.size} pairs; give one label for each."
            )
        where = "pair {}".format
        given_weights = np.ones(rows.size) if sample_weight is None else sample_weight
        weights = check_weights(given_weights, rows.size, where)
        counted = weights > 0
        classes = np.unique(given[counted])
        codes = np.searchsorted(classes, given) if classes.size == 2 else classes
        if classes.size != 2:
            raise InvalidInputError(
                f"y must have two different labels, got {classes.size} ({listed(classes.tolist())}); for likes alone "
                "use BinaryMatrixCompletion."
            )
        observations = Observations.from_checked(
            entries_from_ids(
                rows,
                columns,
                (2 * codes - 1).astype(np.int8),
                TableRules(duplicates=self.duplicates),
                where,
                weights,
            )
        )
        self.classes_ = classes
        self.n_features_in_ = 2
        model = BinaryMatrixCompletion() if self.model is None else clone(self.model)
        self.model_ = model.fit(observations)
        self._factors = self.model_.fitted_.factors_with_unseen
        return self

    def decision_function(self, X: object) -> Array:
        """Return ``x`` of each pair; with an unknown row or column, from the bias of the other one.

        A warning is given if most pairs have an unknown row or column.
        """
        check_is_fitted(self)
        # Unknown ones are at -1: the last row, and the last column.
        i, j = (
            axis.match(Axis(axis.name, wanted.size, wanted), "the pairs have", "give ids")
            for axis, wanted in zip(self.model_.axes_, _pairs(X), strict=True)
        )
        if (n := int(np.count_nonzero((i < 0) | (j < 0)))) > MAX_UNKNOWN_SHARE * i.size:
            warn(
                TribitWarning(
                    f"{n} of {i.size} pairs have a row or a column without training entries, and are predicted from "
                    "the bias of the other one: to hold out entries instead of rows, shuffle the folds, as with "
                    "cv=StratifiedKFold(5, shuffle=True)."
                )
            )
        return self._factors.at(i, j)

    def predict_proba(self, X: object) -> Array:
        """Return the probability of each class, in the order of ``classes_``."""
        x = self.decision_function(X)  # first: it checks that the model is fitted
        likely = self.model_.scores_.probability(x)
        return np.column_stack([1.0 - likely, likely])

    def predict(self, X: object) -> AnyArray:
        """Return the more probable class of each pair."""
        likely = self.predict_proba(X)[:, 1] >= 0.5
        return np.asarray(self.classes_[likely.astype(int)])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the accuracy."""
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _pairs(X: Any) -> tuple[AnyArray, AnyArray]:
    """Return the two columns of a frame, an array or a list of pairs, each with its own type of ids."""
    if hasattr(X, "columns") and not isinstance(X, np.ndarray):
        frame = eager_frame(X)
        if len(frame.columns) == 2:
            first, second = frame.columns
            return frame_column(frame, first, "row"), frame_column(frame, second, "column")
        shape: tuple[int, ...] = frame.shape
    elif hasattr(X, "shape"):
        array = np.asarray(X)
        if array.ndim == 2 and array.shape[1] == 2:
            return array[:, 0], array[:, 1]
        shape = array.shape
    else:
        try:
            rows, columns = zip(*X, strict=True)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"X of type {type(X).__name__} is not a list of pairs (row, column); pass pairs, or a frame with two "
                "columns."
            ) from None
        return np.fromiter(rows, dtype=object), np.fromiter(columns, dtype=object)
    raise InvalidInputError(
        f"X has the shape {shape}; give one row and one column for each entry, as (n_entries, 2). For a matrix of "
        "likes and dislikes use BinaryMatrixCompletion."
    )
