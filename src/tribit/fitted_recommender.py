"""A fitted recommender: a model of the labels, a ranker and the observed entries, which questions are answered from."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from importlib.metadata import version
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit import evaluation, propensity, storage
from tribit.backends.threads import count_jobs
from tribit.completion.fitted_model import FittedModel
from tribit.data.axis import Axes, HasAxes, longer
from tribit.data.observations import Observations
from tribit.data.reading import Reading, Records
from tribit.data.times import time_range
from tribit.errors import InvalidInputError, TribitWarning, either, parameter, warn
from tribit.folding.new_rows import (
    combine_entries,
    empty_observations,
    new_axis,
    place_entries,
    scores_of_new_rows,
)
from tribit.model.fitted import Fitted
from tribit.model.scores import Scores
from tribit.model.spec import is_auto
from tribit.questions.base import changes
from tribit.questions.changes import FoldIn, Update
from tribit.questions.kinds import headings
from tribit.ranking.lists import TopN
from tribit.ranking.rate_ranker import RateRanker, fit_ranker
from tribit.storage.contents import Contents

__all__ = ["FittedRecommender", "SeenTable", "summary_of"]

#: Packages whose versions a saved recommender records.
PACKAGES = ("tribit", "numpy", "scipy", "scikit-learn")


class FittedRecommender(HasAxes):
    """A model, a ranker and the entries of the fit, which answer questions; no estimator of scikit-learn.

    :class:`tribit.Recommender` adds the fit. The command line and the service read a file as this class, since
    scikit-learn takes longer to import than the answer.

    Attributes
    ----------
    model_ : FittedModel
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
        On the entries that were held out, of a second fit without them.
    """

    #: Whether a model was fitted to the entries.
    has_model = True
    #: Seed of a ranker that is fitted again.
    random_state: Any = None
    model_: FittedModel
    ranker_: RateRanker | None
    seen_: Observations | None
    reading_: Reading
    summary_: dict[str, Any]
    evaluation_: evaluation.Evaluation | None

    fold_in = changes(FoldIn, "fold_in")
    update = changes(Update)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a recommender that ``save`` or ``tribit fit`` wrote; a model file gives one with a model alone."""
        return storage.read(path, cls._of)

    @classmethod
    def _of(cls, contents: Contents) -> Self:
        return cls()._set_contents(contents, FittedModel.of_contents(contents))

    @property
    def axes_(self) -> Axes:  # type: ignore[override]
        """Rows and columns."""
        return self.model_.axes_

    @property
    def headings(self) -> tuple[str, str]:
        """Headings of row and column ids in answers: those of the table of the fit."""
        return headings((self.reading_.row, self.reading_.column))

    def weigh(self, entries: Observations) -> Observations:
        """Return entries with the weights that the fit gives to entries of their times."""
        return self.model_.weigh(entries)

    @cached_property
    def seen_mask_(self) -> sp.csr_array:
        """Mask of the observed cells."""
        advice = either(
            "pass exclude_seen=False or the entries to leave out",
            "pass the table of entries to leave out",
        )
        seen = self.require_entries("lists leave out what was seen", advice=advice)
        return self.axes_.mask(seen, "seen has")

    @cached_property
    def have_information_(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each row, and each column, has entries or features; true where no entries are known."""
        if self.seen_ is None:
            rows, columns = (np.ones(size, dtype=bool) for size in self.shape_)
            return rows, columns
        return self.model_.fitted_.have_information(self.seen_)

    @cached_property
    def top_n_(self) -> TopN:
        """Top-N lists, prepared for repeated questions."""
        model = self.model_
        return TopN(model.scores_, self.ranker_, model.device, n_jobs=count_jobs(model.n_jobs))

    def new_rows(self, entries: Observations) -> tuple[Scores, TopN]:
        """Return the scores and the lists of new rows alone, at the cost of these rows.

        They equal those of :meth:`fold_in`, which also copies the entries of every other row. ``entries`` are in the
        columns of the model, matched by id if it has ids.
        """
        model = self.with_rho().model_
        columns = self.axes_.columns.match(
            entries.axes.columns, "the entries have", "pass entries of the same columns"
        )
        here = np.flatnonzero(columns[entries.columns] >= 0)
        given = place_entries(
            entries.take(here) if here.size else empty_observations(*entries.axes),
            entries.rows[here],
            columns[entries.columns[here]],
            entries.axes.rows,
            self.axes_.columns,
        )
        scores = scores_of_new_rows(model.fitted_, given, n_jobs=model.n_jobs)
        ranker = None if self.ranker_ is None else self.ranker_.with_rows(given)
        seen = given.axes.mask(given, "the rows have")
        return scores, TopN(scores, ranker, model.device, seen)

    def replace(
        self, *, fitted: Fitted, entries: Observations | None = None, new: int | None = None
    ) -> Self:
        """Return a copy with another result of a fit and further entries; every change is made here.

        Parameters
        ----------
        fitted : Fitted
            The result.
        entries : Observations or None
            Further entries; a new label replaces the old one.
        new : int or None
            The axis of a fold-in, 0 for rows and 1 for columns; without ids all of its entries are new. The ranker of
            the fit ranks new rows; after any other change it is fitted again.
        """
        again, model = copy(self), self.model_.with_fitted(fitted)
        if self.seen_ is None:
            return again._set(model, None, None, self.summary_, self.evaluation_)
        seen = combine_entries(self.seen_, entries, fitted.axes, new)
        ranker = self.ranker_
        if ranker is not None and new == 0:
            ranker = ranker_from(ranker.arrays(), seen)
        elif ranker is not None:
            seed = self.random_state if isinstance(self.random_state, int) else 0
            ranker = fit_ranker(seen, random_state=seed)
        kept = {name: self.summary_.get(name) for name in ("validation", "times")}
        summary = {**kept, **summary_of(seen)}
        return again._set(model, ranker, seen, summary, self.evaluation_)

    def with_rho(self) -> Self:
        """Return the recommender with the model of the mask, which files do not keep, fitted again."""
        model, seen = self.model_, self.seen_
        if model.rho_ is not None or seen is None or not model.spec_.uses_unobserved:
            return self
        name = "low-rank" if is_auto(model.rho) else model.rho
        rho = propensity.fit_propensity(
            name, seen, n_jobs=model.n_jobs, random_state=0, backend=model.backend
        )
        again = copy(self)
        again.model_ = model.with_fitted(model.fitted_.with_rho(rho))
        return again

    def require_entries(self, reason: str, *, advice: str = "") -> Observations:
        """Return the entries, or raise an error with the reason and, if not only a new fit helps, advice."""
        if self.seen_ is not None:
            return self.seen_
        fit = either(
            "fit a Recommender with keep_seen=True", "fit it with tribit fit, and without --no-seen"
        )
        raise InvalidInputError(
            f"The file keeps no entries, and {reason}: {f'{advice}, or ' if advice else ''}{fit}."
        )

    def match_fit_counts(self, entries: Observations) -> bool:
        """Return whether the entries have as many likes and dislikes as those of the fit; warn if they have not."""
        counts = {"likes": entries.n_likes, "dislikes": entries.n_dislikes}
        if all(self.summary_.get(name, count) == count for name, count in counts.items()):
            return bool(entries.n_likes and entries.n_dislikes)
        warn(
            TribitWarning(
                "The entries are not those of the fit, so that no ranker can be fitted: lists are in the order of the "
                "probability of a like."
            )
        )
        return False

    def _set_contents(self, contents: Contents, model: FittedModel) -> Self:
        """Set all attributes to those of a file."""
        ranker, evaluated = None, None
        if contents.ranker is not None and contents.entries is not None:
            ranker = ranker_from(contents.ranker, contents.entries)
        if contents.evaluation is not None:
            evaluated = evaluation.Evaluation.from_dict(contents.evaluation)
        self.reading_ = model.reading_
        return self._set(model, ranker, contents.entries, contents.summary or {}, evaluated)

    def _set(
        self,
        model: FittedModel,
        ranker: RateRanker | None,
        seen: Observations | None,
        summary: dict[str, Any],
        evaluated: evaluation.Evaluation | None = None,
    ) -> Self:
        self.model_, self.ranker_, self.seen_, self.summary_ = model, ranker, seen, summary
        self.evaluation_ = evaluated
        for name in ("seen_mask_", "have_information_", "top_n_"):  # cached for another fit
            self.__dict__.pop(name, None)
        return self


class SeenTable(FittedRecommender):
    """A table in the place of a recommender, for questions that need its entries alone and no fitted model."""

    has_model = False

    @classmethod
    def of(cls, records: Records) -> Self:
        """Return the table of some records."""
        table = cls()
        table.reading_ = records.reading
        return table._with(records.observations())

    @property
    def axes_(self) -> Axes:  # type: ignore[override]
        """Rows and columns."""
        return self.require_entries("questions need them").axes

    def weigh(self, entries: Observations) -> Observations:
        """Return the entries as they are."""
        return entries

    def fold_in(self, entries: Any = None, **features: Any) -> Self:  # type: ignore[override]
        """Return the table with new rows."""
        return self.update(entries, **features)

    def update(self, entries: Any, **features: Any) -> Self:  # type: ignore[override]
        """Return the table with further entries; a new label replaces an old one."""
        for name, table in features.items():
            if table is not None:
                raise InvalidInputError(
                    f"{parameter(name)} needs a model; fit one to the table, or leave the features out."
                )
        seen = self.require_entries("others are added to them")
        sides = (
            longer(ours, new_axis(ours, theirs))
            for ours, theirs in zip(seen.axes, entries.axes, strict=True)
        )
        again = copy(self)
        return again._with(combine_entries(seen, entries, Axes(*sides)))

    def _with(self, seen: Observations) -> Self:
        self.seen_, self.ranker_, self.evaluation_, self.summary_ = seen, None, None, {}
        return self


def ranker_from(arrays: Mapping[str, Any], seen: Observations) -> RateRanker:
    """Return a ranker from the arrays of a file."""
    try:
        found: RateRanker = RateRanker.from_arrays(arrays, seen)
    except (LookupError, ValueError) as error:
        raise InvalidInputError(f"the ranker is damaged ({error})") from None
    return found


def summary_of(seen: Observations) -> dict[str, Any]:
    """Return facts about the data, as JSON can hold them, and the versions of packages."""
    counts = seen.counts
    return {
        "rows": seen.shape[0],
        "columns": seen.shape[1],
        "likes": seen.n_likes,
        "dislikes": seen.n_dislikes,
        # Least, median and most.
        "entries_per_row": [float(np.quantile(counts[0], share)) for share in (0, 0.5, 1)],
        "entries_per_column": [float(np.quantile(counts[1], share)) for share in (0, 0.5, 1)],
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        **({} if seen.times is None else {"times": time_range(seen.times)}),
    }


def recommender_of(contents: Contents) -> FittedRecommender:
    """Return the recommender of a file, for answers alone."""
    return FittedRecommender._of(contents)
