"""A recommender prepared for many small requests: precomputed rates, cached lists, answers as bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from operator import attrgetter

import numpy as np

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError
from tribit.fitted_recommender import FittedRecommender
from tribit.model.ease import row_blocks
from tribit.nouns import Nouns
from tribit.questions.base import fields_of
from tribit.questions.kinds import Texts
from tribit.questions.predict import Predict
from tribit.questions.recommend import Recommend
from tribit.ranking.lists import TopN
from tribit.ranking.scores import Rated, RateParts, rate_parts, worth
from tribit.serve.schemas import (
    MAX_ITEMS,
    ParsedQuestion,
    encode,
    endpoints,
    fields_of_answer,
    fields_of_lists,
    names_in_json,
)

#: Maximum size of cached lists in bytes: 64 MB hold some 60,000 lists of ten.
MAX_CACHE_BYTES = 2**26
#: Maximum number of cells with precomputed rates, at 24 bytes each: 60 MB. The 1.6 million cells of MovieLens-100k take
#: about a second.
MAX_TABLE_CELLS = 2_500_000
#: Maximum number of cells that the event loop scores, and of pairs that it predicts: about 5 ms. A thread would take
#: longer to start, and a larger question would delay all others.
MAX_QUICK_CELLS, MAX_QUICK_PAIRS = 2**13, 500
#: Position of every unknown row: they all have the same list.
UNKNOWN = -1
#: Fields of a question for lists other than its rows: the key of a cached list.
_fields_without_rows = attrgetter(
    *(each.name for each in fields_of(Recommend) if each.name != "rows")
)


class ServedModel:
    """A recommender and its cache. It does not change, and threads may share it.

    Parameters
    ----------
    recommender : FittedRecommender
        A loaded recommender, which is prepared in place: its ranker uses one thread, since requests run in parallel,
        and the fields of answers have the names of the service.
    version : str
        Version of the model in answers.
    max_table_cells : int
        Maximum number of cells with precomputed rates.
    max_items : int
        Maximum number of items of any list of a request.
    """

    def __init__(
        self,
        recommender: FittedRecommender,
        version: str = "",
        *,
        max_table_cells: int = MAX_TABLE_CELLS,
        max_items: int = MAX_ITEMS,
    ) -> None:
        recommender = recommender.with_rho()
        #: Names of rows and columns in JSON, the questions with these names, and nouns for a page.
        self.names = row, column = names_in_json(recommender.headings)
        self.endpoints = endpoints(self.names, max_items)
        self.wording = Nouns.of(recommender.reading_)
        recommender.reading_ = replace(recommender.reading_, row=row, column=column)
        ranker = recommender.ranker_
        if ranker is not None:
            ranker.n_jobs = 1
        #: Whether the list of one row needs no solution of a linear system.
        self.has_tables = ranker is None or ranker.prepare()
        recommender.top_n_ = with_rates_table(recommender.top_n_, max_table_cells)
        # Cached properties are computed before the first request.
        recommender.model_.fitted_.factors_with_unseen  # noqa: B018
        if recommender.seen_ is not None:
            recommender.seen_mask_  # noqa: B018
        for axis in recommender.axes_:
            axis.by_text  # noqa: B018
        for endpoint in self.endpoints.values():
            endpoint.schema  # noqa: B018
        self.recommender, self.version = recommender, version
        self.cache = ListCache(MAX_CACHE_BYTES)
        self._encoded_version, self._encoded_name = encode(version), encode(row)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.recommender.shape_

    def answer(self, parsed: ParsedQuestion) -> bytes:
        """Return the encoded answer to a question."""
        question, unknown_columns = parsed
        if isinstance(question, Recommend) and question.entries is None:
            return self._answer_with_lists(question)
        found = fields_of_answer(question.answer(self.recommender), self.names)
        if unknown_columns is not None:
            found["unknown_columns"] = unknown_columns
        return encode({**found, "model": self.version})

    def is_quick(self, parsed: ParsedQuestion) -> bool:
        """Return whether the event loop can answer a question without delaying others."""
        question = parsed.question
        if isinstance(question, Predict) and question.pairs is not None:
            return len(question.pairs[0].values) <= MAX_QUICK_PAIRS
        if not isinstance(question, Recommend) or not isinstance(question.rows, Texts):
            return False
        key = _fields_without_rows(question)
        new = [at for at in self._positions(question.rows) if self.cache.get((at, key)) is None]
        if not new:
            return True
        is_fast = self.has_tables and question.level is None and UNKNOWN not in new
        return is_fast and len(new) * self.shape[1] <= MAX_QUICK_CELLS

    def _answer_with_lists(self, question: Recommend) -> bytes:
        """Return the list of each row, encoded; cached lists are not computed again."""
        if not isinstance(question.rows, Texts):
            raise InvalidInputError("Pass rows, or the entries of new rows.")
        key = _fields_without_rows(question)
        rows = list(zip(question.rows.values, self._positions(question.rows), strict=True))
        if question.unknown == "skip":
            rows = [(row, at) for row, at in rows if at != UNKNOWN] or rows
        found: dict[int, bytes] = {}
        new: dict[int, str] = {}
        for row, at in rows:
            cached = self.cache.get((at, key))
            if cached is None:
                new[at] = row
            else:
                found[at] = cached
        unknown = {UNKNOWN: new.pop(UNKNOWN)} if UNKNOWN in new else {}
        for some in filter(None, (new, unknown)):
            found |= self._compute_lists(question, key, some)
        lists = [
            # Unknown rows share a list, each under its own name.
            b"{%b:%b,%b" % (self._encoded_name, encode(row), found[at])
            if at == UNKNOWN
            else found[at]
            for row, at in rows
        ]
        return b'{"lists":[%b],"model":%b}' % (b",".join(lists), self._encoded_version)

    def _compute_lists(
        self, question: Recommend, key: Hashable, rows: dict[int, str]
    ) -> dict[int, bytes]:
        """Return the encoded lists of rows by position, and cache them."""
        answer = replace(question, rows=Texts(tuple(rows.values()))).answer(self.recommender)
        encoded = {}
        for at, fields in zip(rows, fields_of_lists(answer), strict=True):
            if at == UNKNOWN:
                del fields[self.names[0]]
            encoded[at] = encode(fields)[1 if at == UNKNOWN else 0 :]
            self.cache.put((at, key), encoded[at])
        return encoded

    def _positions(self, rows: Texts) -> list[int]:
        by_text = self.recommender.axes_.rows.by_text
        return [by_text.get(row, UNKNOWN) for row in rows.values]


class ListCache:
    """Encoded lists, least recently used first, up to a number of bytes; safe in threads.

    Parameters
    ----------
    max_bytes : int
        Maximum size of all lists together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._lists: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        """Return a list, or None."""
        with self._lock:
            found = self._lists.get(key)
            if found is not None:
                self._lists.move_to_end(key)
            return found

    def put(self, key: Hashable, encoded: bytes) -> None:
        """Add a list, and remove the least recently used ones above the limit."""
        with self._lock:
            self.size += len(encoded) - len(self._lists.pop(key, b""))
            self._lists[key] = encoded
            while self.size > self.max_bytes:
                _, removed = self._lists.popitem(last=False)
                self.size -= len(removed)


class RatesTable:
    """Scores of lists for any weight of dislikes, from precomputed rates of all cells.

    Parameters
    ----------
    parts : callable
        Function from positions of rows to their rates (:func:`tribit.ranking.scores.rate_parts`). The table has the
        same numbers to the last bit.
    shape : (int, int)
        Numbers of rows and columns.
    """

    def __init__(self, parts: Callable[[Positions], RateParts], shape: tuple[int, int]) -> None:
        # Row by row, so that the rates of a row are adjacent in memory.
        self._table = np.empty((shape[0], 3, shape[1]))
        for block in row_blocks(np.arange(shape[0]), shape[1]):
            self._table[block] = np.stack(parts(block), axis=1)

    def __call__(self, rows: Positions, weight: float) -> Rated:
        """Return the scores of rows, with their rates."""
        if rows.size == 1:
            return worth(RateParts(*self._table[rows[0], :, None]), weight)
        return worth(RateParts(*self._table[rows].swapaxes(0, 1)), weight)


def with_rates_table(top: TopN, max_cells: int) -> TopN:
    """Return top-N lists with a table of rates; unchanged if there are too many cells."""
    parts, (n_rows, n_columns) = rate_parts(top.model, top.ranker), top.axes.shape
    if parts is None or n_rows * n_columns > max_cells:
        return top
    return replace(top, prepared=RatesTable(parts, (n_rows, n_columns)))
