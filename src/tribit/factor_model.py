"""Predictions of a fitted low-rank model ``X = U V' + intercepts``: scores, probabilities, signs, top-N lists."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.data.axis import Axes
from tribit.data.entries import Entries
from tribit.data.matrix_estimator import MatrixEstimator
from tribit.metrics.entries import accuracy
from tribit.model.completed import CompletedCells, check_dense, label_matrix
from tribit.model.factors import Factors
from tribit.model.links import Link, as_link
from tribit.model.scores import Scores, as_scores, read_entries
from tribit.ranking.lists import Recommendations, recommend
from tribit.ranking.scores import Ranker

Array = NDArray[np.floating[Any]]


class FactorModel(MatrixEstimator):
    """A scikit-learn estimator whose fit has ``scores_``; every prediction comes from them.

    A subclass calls :meth:`_set_scores` at the end of its fit, and has a parameter ``link`` or overrides :meth:`_link`.

    Attributes
    ----------
    scores_ : Scores
        Axes, factors and link of the fit (:class:`tribit.model.scores.Scores`).
    """

    scores_: Scores

    def decision_function(self, rows: object, columns: object) -> Array:
        """Return ``x`` for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like, or single values
            The user's ids where the model was fitted on ids, else positions from 0. They are broadcast as NumPy does:
            lists of equal length, a list and a single id, or ``rows[:, None]`` and ``columns``.

        Returns
        -------
        array of the common shape, (1,) for two single ids
            Positive where a like is more likely than a dislike.
        """
        check_is_fitted(self)
        i, j = self.scores_.axes.cells(rows, columns)
        return self.scores_.x(i.ravel(), j.ravel()).reshape(i.shape)

    def predict_proba(self, rows: object, columns: object) -> Array:
        """Return the probability of a like for pairs of rows and columns (see :meth:`decision_function`).

        For a model fitted to likes alone without a ``rho`` it is the probability that the cell is observed and liked;
        for dislikes alone, that it is not observed and disliked (``search_.meaning``).
        """
        x = self.decision_function(rows, columns)  # first: it checks that the model is fitted
        return self.scores_.probability(x)

    def predict(self, rows: object, columns: object) -> NDArray[np.int8]:
        """Return +1 (like) or -1 (dislike) for pairs of rows and columns (see :meth:`decision_function`)."""
        likely = self.predict_proba(rows, columns) >= 0.5
        return np.where(likely, 1, -1).astype(np.int8)

    def complete(
        self,
        what: Literal["probability", "sign", "score"] = "probability",
        *,
        seen: object = None,
        force: bool = False,
    ) -> Array:
        """Return the whole completed matrix, dense.

        :meth:`tribit.Recommender.complete` returns it with ids, and keeps the observed entries by default.

        Parameters
        ----------
        what : {"probability", "sign", "score"}, default="probability"
            Probability of a like, +1 / -1, or ``x``.
        seen : Observations, sparse matrix or array, optional
            Observed entries to keep, such as those of the fit: a like as 1, a dislike as 0 (or -1 among signs). By
            default every entry is predicted.
        force : bool, default=False
            Allow more than 10^8 entries.
        """
        check_is_fitted(self)
        scores = self.scores_
        labels = None if seen is None else label_matrix(read_entries(self, seen), scores)
        cells = CompletedCells(scores, what, labels)
        if not force:
            check_dense(
                scores.shape, "call predict_proba(rows, columns) for some pairs, or pass force=True"
            )
        return cells.block(slice(None), slice(None))

    def recommend(
        self,
        rows: object,
        n: int = 10,
        *,
        exclude_seen: object = None,
        avoid_dislikes: float = 1.0,
        ranker: Ranker | None = None,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row, best first.

        Without a ranker, the order is by the probability of a like. With a :class:`~tribit.ranking.CandidateRanker` it
        is by expected likes less ``avoid_dislikes`` times expected dislikes, ``q (p - avoid_dislikes (1 - p))``: q is
        the exposure, the rate at which the row will observe the column, and p the mean of the model's and the ranker's
        probability of a like. Columns with negative values come last, by p alone.

        Parameters
        ----------
        rows : array-like, or a single value
            The user's ids where the model was fitted on ids, else positions from 0.
        n : int, default=10
            Length of a list; a list with fewer candidates is shorter.
        exclude_seen : Observations, sparse matrix or array, optional
            Entries to leave out, such as those of the fit; matched by id where the model has ids.
        avoid_dislikes : float, default=1.0
            Number of likes to give up for one dislike less, at least 0. It is used with a ranker only.
        ranker : CandidateRanker or Ranker, optional
            Ranker of the same rows and columns: ``CandidateRanker().fit(X)``, or another
            :class:`tribit.ranking.Ranker`.

        Returns
        -------
        Recommendations
            Rows, columns and scores (as above; log-probabilities without a ranker). Ties are in the order of the
            columns.
        """
        return recommend(
            self,
            rows,
            n,
            exclude_seen=exclude_seen,
            avoid_dislikes=avoid_dislikes,
            ranker=ranker,
        )

    def score(self, X: object, y: object = None) -> float:  # noqa: ARG002
        """Return the accuracy: the weighted share of the observed entries with the right sign."""
        entries = as_scores(self).place_entries(read_entries(self, X))
        x = self.scores_.x(entries.rows, entries.columns)
        return accuracy(self.scores_.curve, x, entries.labels, entries.weights)

    @property
    def axes_(self) -> Axes:  # type: ignore[override]
        """Rows and columns of the fit."""
        return self.scores_.axes

    @property
    def row_factors_(self) -> Array:
        """U."""
        return self._factors().row_factors

    @property
    def column_factors_(self) -> Array:
        """V."""
        return self._factors().column_factors

    @property
    def intercept_(self) -> float:
        """The one intercept."""
        return self._factors().intercept

    @property
    def row_intercepts_(self) -> Array:
        """One intercept for each row."""
        return self._factors().row_intercepts

    @property
    def column_intercepts_(self) -> Array:
        """One intercept for each column."""
        return self._factors().column_intercepts

    def _factors(self) -> Factors:
        """Return the factors of the fit; a subclass may have scores of higher rank."""
        return self.scores_.factors

    def _link(self) -> Link:
        """Return the link, which maps scores to probabilities of a like."""
        return as_link(self.link)

    def _set_scores(
        self, factors: Factors, entries: Entries, bounds: tuple[float, float] | None = None
    ) -> None:
        """Set ``scores_`` from the factors and the axes of the fitted entries."""
        self.scores_ = Scores(entries.axes, factors, self._link(), bounds=bounds)
