"""A bundle made ready for many small questions: ids found in a dictionary, tables built, scores prepared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tribit.data.axis import Axis, Positions, first_true, named
from tribit.errors import InvalidInputError, TribitWarning
from tribit.folding.unknown import with_unknown
from tribit.model.column_regression import TABLE_COLUMNS
from tribit.quoting import quoted
from tribit.ranking.lists import lists_at
from tribit.ranking.scores import WeighedScore, weighed_score
from tribit.recommender import Recommender
from tribit.serve.encoding import encoded, finite_or_none, items_of, names_of
from tribit.serve.kept_lists import KeptLists
from tribit.serve.one_row import OneRow
from tribit.serve.rates_table import ready_score
from tribit.uncertainty.of_lists import with_intervals
from tribit.workflows.bundles import BASES
from tribit.workflows.lists import LISTS_BASES

#: Bytes of lists that are kept, some 60,000 lists of ten: those of all 943 rows of MovieLens-100k fill 1 MB.
KEPT = 2**26


class UnknownIdError(InvalidInputError):
    """An id that the model does not know, where nothing can be said without knowing it."""


class Wanted(NamedTuple):
    """The wishes for a list: the arguments of :meth:`tribit.Recommender.recommend`."""

    n: int = 10
    avoid_dislikes: float = 1.0
    exclude_seen: bool = True
    ranker: bool = True
    level: float | None = None


class ServedModel:
    """The answers of one bundle, which never changes; threads may share it.

    Parameters
    ----------
    bundle : Recommender
        A fitted or loaded recommender. Its ranker is used with one thread: requests are what runs side by side.
    version : str
        What names it in answers.
    """

    def __init__(self, bundle: Recommender, version: str = "") -> None:
        self.bundle, self.version = bundle, version
        axes = bundle.model_._axes
        self._places = [axis.by_text() for axis in axes]
        self._names = [names_of(axis) for axis in axes]
        self._kept = KeptLists(KEPT)
        self.has_tables = True
        if bundle.ranker_ is not None:
            bundle.ranker_.n_jobs = 1
            self.has_tables = axes.columns.size <= TABLE_COLUMNS
            if self.has_tables:
                for regression in (bundle.ranker_._cells.likes, bundle.ranker_._cells.mask):
                    regression.inverse  # noqa: B018 - now, and not at the first request
        self._score = ready_score(bundle)
        self._seen = None if bundle.seen_ is None else axes.mask(bundle.seen_, "the bundle has")
        self._without_knowing()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.bundle.shape_

    def _without_knowing(self) -> None:
        """Prepare the answers to ids that the model does not know, or keep the reason why it has none."""
        self._nothing_known: Any = None
        self._no_answer: str | None = None
        none = np.zeros(0, dtype=np.int64)
        with warnings.catch_warnings():
            # The answers themselves say what they rest on.
            warnings.simplefilter("ignore", TribitWarning)
            try:
                self._nothing_known = with_unknown(self.bundle.model_)
                self._anybody = OneRow.of(self.bundle, none, none.astype(np.int8))
            except InvalidInputError as error:
                self._no_answer = str(error)

    @cached_property
    def _score_alone(self) -> WeighedScore:
        """Scores of the model without its ranker."""
        return weighed_score(self.bundle.model_, None)

    def predictions(self, rows: Sequence[str], columns: Sequence[str]) -> bytes:
        """Return the probability of a like for each pair of ids, and what it rests on, as in ``tribit predict``."""
        sides = [self._find(side, ids) for side, ids in enumerate((rows, columns))]
        model = self.bundle.model_
        factors = model._factors()
        if any((places < 0).any() for places in sides):
            for side, ids in enumerate((rows, columns)):
                self._check_answered(side, ids, sides[side])
            factors = self._nothing_known
        # The row and the column of which nothing is known are the last ones: position -1.
        probabilities = model._probability(factors.at(*sides))
        answers = zip(rows, columns, sides[0].tolist(), sides[1].tolist(), strict=True)
        found = [
            {
                "row": self._name(0, i, row),
                "column": self._name(1, j, column),
                "probability": finite_or_none(probability),
                "label": 1 if probability >= 0.5 else -1,
                "basis": BASES[i >= 0, j >= 0],
            }
            for (row, column, i, j), probability in zip(
                answers, probabilities.tolist(), strict=True
            )
        ]
        return encoded({"predictions": found, "model": self.version})

    def lists(self, rows: Sequence[str], wanted: Wanted) -> bytes:
        """Return the list of each row, as in ``tribit recommend``; of an unknown row by popularity."""
        places = [self._places[0].get(row, -1) for row in rows]
        new = list(dict.fromkeys(at for at in places if self._kept.get((at, wanted)) is None))
        found = dict(zip(new, self._made(new, rows, places, wanted), strict=True))
        parts = []
        for row, at in zip(rows, places, strict=True):
            # What was kept a moment ago may be gone: others put theirs.
            items = (
                found.get(at)
                or self._kept.get((at, wanted))
                or self._made([at], rows, places, wanted)[0]
            )
            name = encoded(self._name(0, at, row))
            basis = LISTS_BASES[at < 0].encode()
            parts.append(b'{"row":%b,"basis":"%b","items":%b}' % (name, basis, items))
        return b'{"lists":[%b],"model":%b}' % (b",".join(parts), encoded(self.version))

    def is_quick(self, rows: Sequence[str], wanted: Wanted, cells: int) -> bool:
        """Return whether the lists are kept, or have few enough cells to score."""
        places = (self._places[0].get(row, -1) for row in rows)
        new = sum(self._kept.get((at, wanted)) is None for at in places)
        short = self.has_tables and wanted.level is None
        return not new or (short and new * self.shape[1] <= cells)

    def _made(
        self, new: list[int], rows: Sequence[str], places: list[int], wanted: Wanted
    ) -> list[bytes]:
        """Return the lists at some positions, -1 for a row that is not known, and keep them."""
        made: dict[int, bytes] = {}
        if -1 in new:
            self._check_answered(0, rows, np.array(places))
            lists = self._anybody.lists(wanted.n, wanted.avoid_dislikes, ranker=wanted.ranker)
            made[-1] = encoded(next(iter(items_of(lists, self._names[1]))))
        known = [at for at in new if at >= 0]
        if known:
            lists = self._lists_at(np.array(known), wanted)
            made |= zip(known, map(encoded, items_of(lists, self._names[1])), strict=True)
        for at, items in made.items():
            self._kept.put((at, wanted), items)
        return [made[at] for at in new]

    def _lists_at(self, places: Positions, wanted: Wanted) -> Any:
        if wanted.exclude_seen and self._seen is None:
            raise InvalidInputError(
                "The model keeps no entries, so that a list cannot leave out what was seen; ask with exclude_seen "
                "false, or send the entries to /fold-in."
            )
        score = self._score if wanted.ranker else self._score_alone
        lists = lists_at(
            self.bundle.model_,
            places,
            min(wanted.n, self.shape[1]),
            lambda rows: score(rows, wanted.avoid_dislikes),
            self._seen if wanted.exclude_seen else None,
            ordered_by_x=not wanted.ranker or self.bundle.ranker_ is None,
        )
        if wanted.level is None:
            return lists
        bundle = self.bundle
        return with_intervals(lists, bundle.model_, bundle.seen_, places, wanted.level)

    def explanation(self, row: str, column: str, n: int) -> bytes:
        """Return the parts of a score and the ``n`` entries that matter most, as in ``tribit explain``."""
        i, j = (self._known(side, name) for side, name in enumerate((row, column)))
        axes = self.bundle.model_._axes
        found = self.bundle.explain(axes.rows.names(i), axes.columns.names(j)).to_dict()
        answer = {
            "row": self._names[0][int(i[0])],
            "column": self._names[1][int(j[0])],
            "probability": finite_or_none(found["probability"]),
            "x": finite_or_none(found["x"]),
            "parts": {name: finite_or_none(float(part)) for name, part in found["parts"].items()},
            "entries": [self._entry(entry) for entry in found["entries"][:n]],
            "n_entries": len(found["entries"]),
            "model": self.version,
        }
        return encoded(answer)

    def _entry(self, entry: dict[str, Any]) -> dict[str, Any]:
        place = self._places[1][str(entry["column"])]
        return {
            "column": self._names[1][place],
            "label": int(entry["label"]),
            "contribution": finite_or_none(float(entry["contribution"])),
            "probability_change": finite_or_none(float(entry["probability_change"])),
        }

    def folded(
        self,
        columns: Sequence[str],
        labels: Sequence[int],
        wanted: Wanted,
        asked: Sequence[str] = (),
    ) -> bytes:
        """Return the list of somebody new from their entries, and probabilities in the columns that are asked for.

        Entries in columns that the model does not know are left out, and these columns named.
        """
        places = self._find(1, columns)
        here = np.flatnonzero(places >= 0)
        if (again := _first_repeat(places[here])) is not None:
            raise InvalidInputError(
                f"The column {quoted(columns[here[again]])} is in two entries; send each once."
            )
        sought = self._find(1, asked)
        if (lost := first_true(sought < 0)) is not None:
            raise self._unknown(1, asked[lost])
        if here.size:
            row = OneRow.of(self.bundle, places[here], np.array(labels, dtype=np.int8)[here])
        elif self._no_answer is None:
            row = self._anybody
        else:
            raise InvalidInputError(f"No entry is in a column of the model: {self._no_answer}")
        lists = row.lists(wanted.n, wanted.avoid_dislikes, ranker=wanted.ranker)
        predictions = zip(sought.tolist(), row.probabilities(sought).tolist(), strict=True)
        answer = {
            "basis": LISTS_BASES[not here.size],
            "items": next(iter(items_of(lists, self._names[1]))),
            "predictions": [
                {"column": self._names[1][j], "probability": finite_or_none(p)}
                for j, p in predictions
            ],
            "unknown_columns": [columns[at] for at in np.flatnonzero(places < 0).tolist()],
            "model": self.version,
        }
        return encoded(answer)

    def _find(self, side: int, ids: Sequence[str]) -> Positions:
        known = self._places[side]
        return np.array([known.get(each, -1) for each in ids], dtype=np.int64)

    def _known(self, side: int, name: str) -> Positions:
        """Return the position of an id that must be known."""
        places = self._find(side, [name])
        if places[0] < 0:
            raise self._unknown(side, name)
        return places

    def _unknown(self, side: int, name: str) -> UnknownIdError:
        axis: Axis = self.bundle.model_._axes[side]
        return UnknownIdError(
            f"The {axis.name} {quoted(name)} is not one the model was fitted on; send one such as {named(axis.ids, 0)}."
        )

    def _check_answered(self, side: int, ids: Sequence[str], places: Positions) -> None:
        """Refuse ids that are not known where the model has no answer to them."""
        lost = first_true(places < 0)
        if lost is not None and self._no_answer is not None:
            raise UnknownIdError(
                f"{self._unknown(side, ids[lost])} Nothing can be said of others: {self._no_answer}"
            )

    def _name(self, side: int, place: int, given: str) -> str | int:
        return self._names[side][place] if place >= 0 else given


def _first_repeat(places: Positions) -> int | None:
    """Return where a position stands for the second time."""
    first = np.zeros(places.size, dtype=bool)
    first[np.unique(places, return_index=True)[1]] = True
    return first_true(~first)
