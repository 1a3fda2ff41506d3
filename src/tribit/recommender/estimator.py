"""The recommender: a model of the labels, a ranker, and what was seen, as one object and one file."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tribit.archive.parts import Parts
from tribit.checks import check_switch
from tribit.completion import BinaryMatrixCompletion
from tribit.completion.files import load_bundle
from tribit.data.axis import AnyArray, as_list
from tribit.data.observations import Observations, as_observations
from tribit.data.reading import Reading
from tribit.data.remote import RemoteObservations
from tribit.errors import InvalidTypeError, TribitWarning, warn
from tribit.evaluation import Evaluation, evaluate
from tribit.explain import Explanation, explain
from tribit.explain.neighbours import Neighbours, similar
from tribit.folding import fold_in, update
from tribit.folding.positions import all_entries
from tribit.model.spec import AUTO
from tribit.quoting import quoted
from tribit.ranking import CandidateRanker
from tribit.ranking.lists import Recommendations, recommend
from tribit.recommender.entries import entries_to_leave_out, n_fitted, no_entries, with_rho
from tribit.recommender.facts import facts_of, summary_of
from tribit.recommender.rankers import ranker_from, wants_ranker
from tribit.storage import save
from tribit.uncertainty.of_lists import with_intervals


class Recommender(BaseEstimator):  # type: ignore[misc]
    """Lists of what a row will like, with probabilities, intervals and reasons; saved as one file.

    It holds a :class:`BinaryMatrixCompletion`, which tells likes from dislikes; a
    :class:`tribit.ranking.CandidateRanker`, which estimates what a row will observe (exposure); and the entries that
    both were fitted on, which lists leave out and explanations name. Lists order columns by the expected likes less
    ``avoid_dislikes`` times the expected dislikes.

    Parameters
    ----------
    model : BinaryMatrixCompletion or None, default=None
        The model of the labels, which is cloned; None for the default.
    ranker : bool or "auto", default="auto"
        Whether to fit a ranker. "auto" does where likes and dislikes were seen: of one label alone the model itself
        estimates what is seen and liked.
    keep_seen : bool, default=True
        Whether a file keeps the entries. What is read from one without them, for privacy, must be given what lists
        leave out, has no ranker, which needs them, and cannot explain or update.
    like_at : float or None, default=None
        The smallest rating that is a like, for a matrix of ratings; None for that of the model.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the default model and of the ranker.

    Attributes
    ----------
    model_ : BinaryMatrixCompletion
        The fitted model.
    ranker_ : CandidateRanker or None
        The fitted ranker.
    seen_ : Observations or None
        The entries, in the rows and columns of the model.
    reading_ : Reading or None
        The rules by which the table was read, where there was a file.
    summary_ : dict
        Facts about the data and the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> recommender = Recommender(random_state=0).fit(A)
    >>> int(recommender.recommend(2, 1).columns[0, 0])
    1
    """

    def __init__(
        self,
        model: BinaryMatrixCompletion | None = None,
        *,
        ranker: Any = AUTO,
        keep_seen: bool = True,
        like_at: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.ranker = ranker
        self.keep_seen = keep_seen
        self.like_at = like_at
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        row_features: Any = None,
        column_features: Any = None,
        client: Any = None,
    ) -> Self:
        """Fit the model and the ranker.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1); what is 0, NaN or not stored is unobserved.
        y : ignored
            Present for scikit-learn's interface.
        row_features, column_features : data frame, sparse matrix or array, optional
            As in :meth:`BinaryMatrixCompletion.fit`.
        client : distributed.Client, optional
            A dask cluster for the fit of the model, as there. Then there is no ranker, and entries are not kept.
        """
        check_switch("keep_seen", self.keep_seen)
        model = self._unfitted_model()
        observations = model._observations(X, client)
        wanted = wants_ranker(self.ranker, observations)
        model.fit(observations, row_features=row_features, column_features=column_features)
        ranker = None
        if wanted:
            ranker = CandidateRanker(device=model.device, random_state=self.random_state)
            ranker.fit(observations)
        remote = isinstance(observations, RemoteObservations)
        self._set(model, ranker, None if remote else observations)
        self.reading_: Reading | None = None
        self.summary_ = summary_of(model, observations)
        return self

    def recommend(
        self,
        rows: Any = None,
        n: int = 10,
        *,
        exclude_seen: Any = True,
        avoid_dislikes: float = 1.0,
        level: float | None = 0.9,
        ranker: bool = True,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row, best first.

        Parameters
        ----------
        rows : array-like, a single value or None
            The user's ids where the recommender was fitted on ids, else positions from 0; None for every row.
        n : int, default=10
            Length of a list, at most the number of columns; a row with fewer to choose from has a shorter one.
        exclude_seen : bool, Observations, sparse matrix or array, default=True
            Whether to leave out what the row has seen; or the entries to leave out.
        avoid_dislikes : float, default=1.0
            How many likes one would give up to avoid a dislike.
        level : float or None, default=0.9
            Posterior probability of the intervals of the probabilities (:func:`tribit.uncertainty.laplace`), above 0
            and below 1; None for no intervals.
        ranker : bool, default=True
            Whether to use the ranker, where there is one; else the probability of a like alone decides.

        Returns
        -------
        Recommendations
            With probabilities of a like, their intervals, and the likes and dislikes to be expected.
        """
        check_is_fitted(self)
        axes = self.model_._axes
        places = np.arange(axes.shape[0]) if rows is None else axes.rows.find(as_list(rows))
        seen = self._left_out(exclude_seen)
        found = recommend(
            self.model_,
            axes.rows.names(places),
            n,
            exclude_seen=seen,
            avoid_dislikes=avoid_dislikes,
            ranker=self.ranker_ if ranker else None,
        )
        if level is None:
            return found
        return with_intervals(found, self.model_, self.seen_, places, level)

    def predict_proba(self, rows: Any, columns: Any) -> NDArray[np.floating[Any]]:
        """Return the probability of a like for pairs, as :meth:`BinaryMatrixCompletion.predict_proba` does."""
        check_is_fitted(self)
        return self.model_.predict_proba(rows, columns)

    def predict(self, rows: Any, columns: Any) -> NDArray[np.int8]:
        """Return +1 (like) or -1 (dislike) for pairs of rows and columns."""
        check_is_fitted(self)
        return self.model_.predict(rows, columns)

    def explain(self, row: Any, column: Any) -> Explanation:
        """Return which entries of the row pulled the score of a column up or down (:mod:`tribit.explain`)."""
        check_is_fitted(self)
        seen = self._kept("explanations name entries", again=True)
        return explain(with_rho(self.model_, self.seen_), row, column, seen)

    def similar(self, *, rows: Any = None, columns: Any = None, n: int = 10) -> Neighbours:
        """Return the columns (or rows) whose scores agree best with those of the given ones.

        As :func:`tribit.similar` does; those with few entries come later, where the entries are kept.
        """
        check_is_fitted(self)
        return similar(self.model_, rows=rows, columns=columns, n=n, seen=self.seen_)

    def evaluate(self, X: Any, **options: Any) -> Evaluation:
        """Compare the model with entries that it was not fitted on, beside baselines; see :func:`tribit.evaluate`."""
        check_is_fitted(self)
        given = as_observations(X, like_at=self.model_.like_at)
        seen = self.seen_
        if seen is not None and (n := n_fitted(self.model_, given, seen)):
            warn(
                TribitWarning(
                    f"{n} of the {len(given)} entries were part of the fit, so that the measures flatter the model and "
                    "stand without baselines and lists: hold out entries."
                )
            )
            seen = None
        return evaluate(self.model_, given, seen, ranker=self.ranker_, **options)

    def fold_in(
        self,
        X: Any = None,
        *,
        axis: str = "rows",
        row_features: Any = None,
        column_features: Any = None,
        prior: str = "new",
    ) -> Self:
        """Return a copy with new rows (or columns) added, everything else fixed.

        The parameters are those of :meth:`BinaryMatrixCompletion.fold_in`; by default the ridge is the one for new
        rows. New rows are ranked by the regressions of the fit; new columns need new ones, and the ranker is fitted
        again.
        """
        check_is_fitted(self)
        model = fold_in(
            with_rho(self.model_, self.seen_),
            X,
            axis=axis,
            row_features=row_features,
            column_features=column_features,
            prior=prior,
        )
        given = None if X is None else as_observations(X, like_at=model.like_at)
        return self._with(model, given, new=("rows", "columns").index(axis))

    def update(self, X: Any, *, row_features: Any = None, column_features: Any = None) -> Self:
        """Return a copy that knows new entries too; see :meth:`BinaryMatrixCompletion.update`.

        The ranker is fitted again.
        """
        check_is_fitted(self)
        seen = self._kept(
            "an update solves again for rows and columns from all their entries", again=True
        )
        given = as_observations(X, like_at=self.model_.like_at)
        model = update(
            with_rho(self.model_, self.seen_),
            given,
            seen,
            row_features=row_features,
            column_features=column_features,
        )
        return self._with(model, given)

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.model_.shape_

    @property
    def row_ids_(self) -> AnyArray | None:
        """The user's ids of rows, where there are any."""
        return self.model_.row_ids_

    @property
    def column_ids_(self) -> AnyArray | None:
        """The user's ids of columns, where there are any."""
        return self.model_.column_ids_

    def info(self) -> dict[str, str]:
        """Return what the recommender is, what was chosen and why, on how much data, and how good it was there."""
        check_is_fitted(self)
        return facts_of(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one safetensors file, which :meth:`load` and the command line read.

        The entries, and the ranker with them, only where ``keep_seen`` is true.
        """
        check_is_fitted(self)
        seen = self.seen_ if self.keep_seen else None
        arrays = None if self.ranker_ is None or seen is None else self.ranker_.arrays()
        reading = None if self.reading_ is None else self.reading_.to_json()
        save(self.model_, path, Parts(seen, arrays, reading, self.summary_))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a bundle that :meth:`save` or ``tribit fit`` wrote; of a model file it has the model alone."""
        model, parts = load_bundle(path)
        found = cls(ranker=parts.ranker is not None, keep_seen=parts.seen is not None)
        found.model_, found.seen_ = model, parts.seen
        found.ranker_ = None
        if parts.ranker is not None and parts.seen is not None:
            found.ranker_ = ranker_from(parts.ranker, parts.seen, quoted(os.fspath(path)))
        found.reading_ = None if parts.reading is None else Reading.from_json(parts.reading)
        found.summary_ = parts.summary or {}
        return found

    def _unfitted_model(self) -> BinaryMatrixCompletion:
        if self.model is None:
            return BinaryMatrixCompletion(like_at=self.like_at, random_state=self.random_state)
        if not isinstance(self.model, BinaryMatrixCompletion):
            raise InvalidTypeError(
                f"model is of type {type(self.model).__name__}; pass a BinaryMatrixCompletion, or None."
            )
        model: BinaryMatrixCompletion = clone(self.model)
        if self.like_at is not None:
            model.set_params(like_at=self.like_at)
        return model

    def _set(
        self,
        model: BinaryMatrixCompletion,
        ranker: CandidateRanker | None,
        seen: Observations | None,
    ) -> None:
        self.model_, self.ranker_, self.seen_ = model, ranker, seen

    def _with(self, model: Any, given: Observations | None, new: int | None = None) -> Self:
        """Return a copy with another model and further entries, of new rows (0) or columns (1) alone where said."""
        again = copy(self)
        again._set(model, None, None)
        if self.seen_ is None:
            return again
        again.seen_ = all_entries(self.seen_, given, model._axes, new)
        if self.ranker_ is not None and new == 0:
            again.ranker_ = ranker_from(self.ranker_.arrays(), again.seen_)
        elif self.ranker_ is not None:
            seed = self.random_state if isinstance(self.random_state, int) else 0
            again.ranker_ = CandidateRanker(random_state=seed).fit(again.seen_)
        held_out = self.summary_.get("held_out")
        again.summary_ = {**summary_of(model, again.seen_), "held_out": held_out}
        return again

    def _left_out(self, exclude_seen: Any) -> Observations | None:
        """Return the entries that lists leave out."""
        if isinstance(exclude_seen, bool | np.bool_):
            return self._kept("lists leave out what was seen") if exclude_seen else None
        return entries_to_leave_out(self.model_, exclude_seen)

    def _kept(self, reason: str, *, again: bool = False) -> Observations:
        """Return the entries, or say what for they are needed; ``again`` where only a fit that keeps them helps."""
        if self.seen_ is None:
            raise no_entries(reason, again=again)
        return self.seen_
