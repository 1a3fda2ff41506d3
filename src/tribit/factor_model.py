"""The answers of a fitted low-rank model ``X = U V' + intercepts``: entries, probabilities, signs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.checks import check_choice
from tribit.data.axis import Axes
from tribit.data.matrix_estimator import MatrixEstimator
from tribit.data.observations import Entries
from tribit.errors import InvalidInputError
from tribit.metrics.entries import accuracy
from tribit.model.factors import Factors
from tribit.model.links import Link, as_link
from tribit.model.scores import Scores, as_scores, read_entries
from tribit.ranking.lists import Recommendations, recommend
from tribit.ranking.scores import Ranker

Array = NDArray[np.floating[Any]]

#: Most entries of a dense answer that is not forced: 10^8 float64 are 800 MB.
DENSE_LIMIT = 10**8


class FactorModel(MatrixEstimator):
    """A scikit-learn estimator whose fit has ``scores_``; every prediction comes from them.

    A subclass calls :meth:`_set_scores` at the end of its fit, and either has a parameter ``link`` or says in
    :meth:`_link` how a score becomes a probability.

    Attributes
    ----------
    scores_ : Scores
        Axes, factors and link of the fit (:class:`tribit.model.scores.Scores`).
    """

    scores_: Scores

    def decision_function(self, rows: Any, columns: Any) -> Array:
        """Return ``x`` for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like of equal length, or single values
            The user's ids where the model was fitted on ids, else positions from 0.

        Returns
        -------
        array of shape (n_pairs,)
            Positive where a like is the likelier.
        """
        check_is_fitted(self)
        return self.scores_.x(*self.scores_.axes.pairs(rows, columns))

    def predict_proba(self, rows: Any, columns: Any) -> Array:
        """Return the probability of a like for pairs of rows and columns (see :meth:`decision_function`).

        Of a model that was fitted to likes alone without a ``rho`` it is the probability of the cell being seen and
        liked, of dislikes alone that of its not being seen and disliked: ``search_.meaning`` says so.
        """
        x = self.decision_function(rows, columns)  # first: it is what says that nothing was fitted
        return self.scores_.probability(x)

    def predict(self, rows: Any, columns: Any) -> NDArray[np.int8]:
        """Return +1 (like) or -1 (dislike) for pairs of rows and columns (see :meth:`decision_function`)."""
        likely = self.predict_proba(rows, columns) >= 0.5
        return np.where(likely, 1, -1).astype(np.int8)

    def complete(
        self,
        what: Literal["probability", "decision", "sign"] = "probability",
        *,
        force: bool = False,
    ) -> Array:
        """Return the whole completed matrix, dense.

        Parameters
        ----------
        what : {"probability", "decision", "sign"}, default="probability"
            Probability of a like, ``x``, or +1 / -1.
        force : bool, default=False
            Allow more than 10^8 entries.
        """
        check_is_fitted(self)
        check_choice("what", what, ("probability", "decision", "sign"))
        shape = self.shape_
        if shape[0] * shape[1] > DENSE_LIMIT and not force:
            raise InvalidInputError(
                f"The completed matrix has {shape[0]} x {shape[1]} entries, {shape[0] * shape[1] * 8 / 1e9:.1f} GB: "
                "ask for the pairs you need with predict_proba(rows, columns), or pass force=True."
            )
        P, Q = self.scores_.factors.product_factors()
        X = self.scores_.clip(P @ Q.T)
        if what == "decision":
            return np.asarray(X)
        likely = self.scores_.probability(X)
        return likely if what == "probability" else np.where(likely >= 0.5, 1.0, -1.0)

    def recommend(
        self,
        rows: Any,
        n: int = 10,
        *,
        exclude_seen: Any = None,
        avoid_dislikes: float = 1.0,
        ranker: Ranker | None = None,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row, best first.

        Without a ranker, by the probability of a like. With a :class:`~tribit.ranking.CandidateRanker`, by the
        expected likes less ``avoid_dislikes`` times the expected dislikes, ``q (p - avoid_dislikes (1 - p))``: q is the
        exposure, the rate at which the row will observe the column, and p, in which model and ranker have equal weight,
        the probability of a like there. Columns of which that is negative come last, by p alone.

        Parameters
        ----------
        rows : array-like, or a single value
            The user's ids where the model was fitted on ids, else positions from 0.
        n : int, default=10
            Length of a list, at most the number of columns. A row with fewer to choose from has a shorter one, filled
            up with -1 (None where columns have ids) and ``-inf``; ``pairs()`` leaves that out.
        exclude_seen : Observations, sparse matrix or array, optional
            Entries to leave out, such as those the model was fitted on; matched by id where the model has ids.
        avoid_dislikes : float, default=1.0
            How many likes one would give up to avoid a dislike, at least 0; more shows fewer dislikes and finds fewer
            likes. It plays no part without a ranker.
        ranker : CandidateRanker or Ranker, optional
            Fitted on the same rows and columns: ``CandidateRanker().fit(X)``, or anything like it
            (:class:`tribit.ranking.Ranker`).

        Returns
        -------
        Recommendations
            Rows, columns and scores (as above; log-probabilities where there is no ranker). Equal ones
            come in the order of the columns.
        """
        return recommend(
            self,
            rows,
            n,
            exclude_seen=exclude_seen,
            avoid_dislikes=avoid_dislikes,
            ranker=ranker,
        )

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the share of the observed entries of ``X`` whose sign is predicted right."""
        rows, columns, labels = as_scores(self).place_entries(read_entries(self, X))
        return accuracy(self.scores_.curve, self.scores_.x(rows, columns), labels)

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
        """Return the factors that were fitted; those of the scores may have further columns."""
        return self.scores_.factors

    def _link(self) -> Link:
        """Return how a score becomes the probability of a like."""
        return as_link(self.link)

    def _set_scores(
        self, factors: Factors, entries: Entries, bounds: tuple[float, float] | None = None
    ) -> None:
        """Keep the factors, and the axes of the entries that they were fitted on."""
        self.scores_ = Scores(entries.axes, factors, self._link(), bounds=bounds)
