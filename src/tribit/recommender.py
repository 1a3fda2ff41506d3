"""The recommender: a model of the labels, a ranker and the observed entries, as one object and one file."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tribit import storage
from tribit.answers import as_json_values
from tribit.checks import check_switch
from tribit.completion.estimator import BinaryMatrixCompletion, fitted_on, warn_of_labels
from tribit.completion.files import contents_of, model_of, warn_of_rho
from tribit.data.matrix_estimator import MatrixEstimator
from tribit.data.observations import Observations
from tribit.data.rules import RuleOptions
from tribit.display import ShowsFit
from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitWarning,
    parameter,
    warn,
)
from tribit.evaluation.held_out import Evaluation
from tribit.fitted_recommender import FittedRecommender, summary_of
from tribit.model.spec import AUTO, is_auto
from tribit.questions.ask import Ask
from tribit.questions.base import asks
from tribit.questions.complete import Complete
from tribit.questions.evaluate import Evaluate
from tribit.questions.explain import Explain
from tribit.questions.export import Export
from tribit.questions.info import Info, validation_of
from tribit.questions.means import Means
from tribit.questions.positions import Positions
from tribit.questions.predict import Predict
from tribit.questions.recommend import Recommend
from tribit.questions.similar import Similar
from tribit.questions.value import Value
from tribit.randomness import RandomState, held_out_mask
from tribit.ranking.rate_ranker import fit_ranker
from tribit.solvers.loop import INTERRUPTED
from tribit.storage.contents import Contents

__all__ = ["Recommender"]


class Recommender(FittedRecommender, ShowsFit, MatrixEstimator):
    """Recommender system: top-N lists with probabilities, intervals and explanations; saved as one file.

    It holds a :class:`BinaryMatrixCompletion`, which predicts likes and dislikes; a
    :class:`tribit.ranking.RateRanker`, which estimates the exposure, the rate at which a row observes a column;
    and the entries that both were fitted on. Lists leave these entries out, and explanations name them. Lists order
    columns by the rate of likes minus ``avoid_dislikes`` times that of dislikes.

    Parameters
    ----------
    model : BinaryMatrixCompletion or None, default=None
        The model of the labels, which is cloned; None for the default.
    ranker : bool or "auto", default="auto"
        Whether to fit a ranker. "auto" fits one if likes and dislikes were observed: with one label the model itself
        predicts the cells that are observed and liked.
    keep_seen : bool, default=True
        Whether a file keeps the entries. Without them, for privacy, a recommender from the file has no ranker, cannot
        explain or update, and lists need the entries to leave out.
    like_at : float or None, default=None
        The smallest rating that is a like, for a matrix of ratings; None for that of the model.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the default model and of the ranker.

    Attributes
    ----------
    model_ : BinaryMatrixCompletion
        The fitted model.
    ranker_ : RateRanker or None
        The fitted ranker.
    seen_ : Observations or None
        The entries, in the rows and columns of the model.
    reading_ : Reading
        The rules by which the table was read.
    summary_ : dict
        Facts about the data and the fit.
    evaluation_ : Evaluation or None
        Measures of the fit without the entries that ``fit(hold_out=)`` held out, on these entries.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> recommender = Recommender(random_state=0).fit(A)
    >>> int(recommender.recommend(2, 1).columns[0, 0])
    1
    """

    model_: BinaryMatrixCompletion

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

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters and, after a fit, the counts of its entries."""
        text = super().__repr__(N_CHAR_MAX)
        known = getattr(self, "summary_", None)
        return f"{text} {fitted_on(known, self.reading_)}" if known else text

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        weights: Any = None,
        row_features: Any = None,
        column_features: Any = None,
        hold_out: float | None = None,
        client: Any = None,
        **rules: Unpack[RuleOptions],
    ) -> Self:
        """Fit the model and the ranker.

        Parameters
        ----------
        X : Observations, data frame, sparse matrix or array of shape (n_rows, n_columns)
            As in :meth:`BinaryMatrixCompletion.fit`.
        y : None
            As in :meth:`BinaryMatrixCompletion.fit`.
        weights : array-like or sparse matrix, optional
            As in :meth:`BinaryMatrixCompletion.fit`. The model is weighted; the ranker, which estimates what is
            observed, counts entries.
        row_features, column_features : data frame, sparse matrix or array, optional
            As in :meth:`BinaryMatrixCompletion.fit`.
        hold_out : float, int or None, default=None
            Share or number of entries for a test set. A second fit, to the other entries alone, tunes its own
            hyperparameters and is evaluated on the test set (``evaluation_``). The recommender itself is fitted to all
            entries, and is the same as without ``hold_out``.
        client : distributed.Client, optional
            A dask cluster for the fit of the model. The recommender then has no ranker and keeps no entries.
        **rules
            Rules of reading, as in :meth:`BinaryMatrixCompletion.fit`.
        """
        check_switch("keep_seen", self.keep_seen)
        warn_of_labels(y)
        model = self._unfitted_model()
        observations = model.read(X, client, weights, **rules)
        wanted = wants_ranker(self.ranker, observations)
        parts = None
        if hold_out is not None:  # refused before the fit
            parts = split_for_evaluation(observations, hold_out, self.random_state)
        features = {"row_features": row_features, "column_features": column_features}
        model.fit(observations, **features)
        ranker = None
        if wanted:
            ranker = fit_ranker(observations, device=model.device, random_state=self.random_state)
        self.reading_ = model.reading_
        weighed = model.weigh(observations)
        validation = validation_of(model, weighed)
        summary = {**summary_of(observations), "validation": validation}
        self._set(model, ranker, None if observations.is_remote else weighed, summary)
        if parts is not None:
            self.evaluation_ = self._evaluation_of_second_fit(*parts, features)
        return self

    complete = asks(Complete)
    recommend = asks(Recommend)
    predictions = asks(Predict, "predictions")
    explain = asks(Explain)
    similar = asks(Similar)
    positions = asks(Positions)
    means = asks(Means)
    ask = asks(Ask)
    value = asks(Value)
    evaluate = asks(Evaluate)
    vectors = asks(Export, "vectors")
    info = asks(Info)

    def predict_proba(self, rows: object, columns: object) -> NDArray[np.floating[Any]]:
        """Return the probability of a like for pairs, as :meth:`BinaryMatrixCompletion.predict_proba` does."""
        check_is_fitted(self)
        return self.model_.predict_proba(rows, columns)

    def predict(self, rows: object, columns: object) -> NDArray[np.int8]:
        """Return +1 (like) or -1 (dislike) for pairs of rows and columns."""
        check_is_fitted(self)
        return self.model_.predict(rows, columns)

    def _html_of_fit(self) -> str | None:
        return self.info()._repr_html_() if hasattr(self, "model_") else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recommender to one safetensors file, which :meth:`load` and the command line read.

        Entries and ranker are included if ``keep_seen`` is true.
        """
        check_is_fitted(self)
        evaluation = None if self.evaluation_ is None else self.evaluation_.to_dict()
        contents = dataclasses.replace(
            contents_of(self.model_),
            reading=self.reading_.to_json(),
            summary=self.summary_,
            evaluation=as_json_values(evaluation),
        )
        if self.keep_seen and self.seen_ is not None:
            arrays = None if self.ranker_ is None else self.ranker_.arrays()
            contents = dataclasses.replace(contents, entries=self.seen_, ranker=arrays)
        storage.write(path, contents)
        warn_of_rho(self.model_)

    @classmethod
    def _of(cls, contents: Contents) -> Self:
        found = cls(ranker=contents.ranker is not None, keep_seen=contents.entries is not None)
        return found._set_contents(contents, model_of(contents))

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

    def _evaluation_of_second_fit(
        self, train: Observations, test: Observations, features: dict[str, Any]
    ) -> Evaluation | None:
        """Return the evaluation of a fit to the training entries; None if the user interrupts a fit."""
        if self.model_.stop_reason_ != INTERRUPTED:
            again: Self = clone(self).fit(train, **features)
            if again.model_.stop_reason_ != INTERRUPTED:
                return again.evaluate(test)
        warn(TribitWarning("Interrupted before the evaluation on the entries that were held out."))
        return None


def wants_ranker(ranker: object, observations: Observations) -> bool:
    """Return whether to fit a ranker, from the parameter and the observed labels."""
    if not is_auto(ranker) and check_switch("ranker", ranker):
        observations.require_local(
            f"A ranker needs all entries on one machine: leave out {parameter('ranker')}, or fit without a cluster."
        )
        return True
    if observations.is_remote or not is_auto(ranker):
        return False
    return bool(observations.n_likes and observations.n_dislikes)


def split_for_evaluation(
    observations: Observations, hold_out: float, random_state: RandomState
) -> tuple[Observations, Observations]:
    """Return training and test entries for ``hold_out``; training entries have every label of the observations."""
    given = parameter("hold_out", hold_out)
    observations.require_local(
        f"{given} needs all entries on one machine: leave it out, and evaluate on a test set of your own."
    )
    mask = held_out_mask(observations.n_observed, hold_out, random_state, "hold_out")
    train, test = observations.hold_out(mask)
    for label, before, after in (
        ("like", observations.n_likes, train.n_likes),
        ("dislike", observations.n_dislikes, train.n_dislikes),
    ):
        if before and not after:
            raise InvalidInputError(
                f"{given} puts every {label} into the test set; hold out fewer entries."
            )
    return train, test
