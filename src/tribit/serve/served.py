"""A recommender prepared for many small questions, and its answers as bytes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from operator import attrgetter

from tribit.errors import InvalidInputError
from tribit.questions.base import fields_of
from tribit.questions.kinds import Texts
from tribit.questions.predict import Predict
from tribit.questions.recommend import Recommend
from tribit.recommender import Recommender
from tribit.serve.answers import encode, fields_of_answer
from tribit.serve.kept_lists import KeptLists
from tribit.serve.rates_table import with_rates_table
from tribit.serve.schemas import AskedQuestion

#: Bytes of lists that are kept, some 60,000 lists of ten: those of all 943 rows of MovieLens-100k fill 1 MB.
MAX_KEPT_BYTES = 2**26
#: Most cells that the event loop scores, and pairs that it predicts: 5 ms or so. A thread would take longer to begin,
#: and larger questions would delay all others.
QUICK_CELLS, QUICK_PAIRS = 2**13, 500
#: Position of every row that the model does not know: all have the same list.
UNKNOWN = -1
#: Values of a question for lists but for its rows: lists are kept by them.
_without_rows = attrgetter(*(each.name for each in fields_of(Recommend) if each.name != "rows"))


class ServedModel:
    """The answers of one recommender, which never changes; threads may share it.

    Parameters
    ----------
    recommender : Recommender
        A loaded recommender, which is prepared here: its ranker uses one thread, since requests run side by side, and
        headings are "row" and "column".
    version : str
        Its name in answers.
    """

    def __init__(self, recommender: Recommender, version: str = "") -> None:
        recommender = recommender.with_rho()
        if recommender.reading_ is not None:
            recommender.reading_ = replace(recommender.reading_, row=None, column=None)
        ranker = recommender.ranker_
        #: Whether the list of one row takes no solution of a linear system.
        self.has_tables = ranker is None or ranker.set_params(n_jobs=1).prepare()
        recommender.top_n_ = with_rates_table(recommender.top_n_)
        # Computed now, and not at the first request.
        recommender.model_.fitted_.factors_with_unknown  # noqa: B018
        if recommender.seen_ is not None:
            recommender.seen_mask_  # noqa: B018
        for axis in recommender.axes_:
            axis.by_text  # noqa: B018
        self.recommender, self.version, self.kept = recommender, version, KeptLists(MAX_KEPT_BYTES)
        self._encoded_version = encode(version)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.recommender.shape_

    def answer(self, asked: AskedQuestion) -> bytes:
        """Return the answer to a question."""
        question, unknown_columns = asked
        if isinstance(question, Recommend) and question.entries is None:
            return self._lists(question)
        found = fields_of_answer(question.answer(self.recommender))
        if unknown_columns is not None:
            found["unknown_columns"] = unknown_columns
        return encode({**found, "model": self.version})

    def is_quick(self, asked: AskedQuestion) -> bool:
        """Return whether the event loop can answer a question without delaying others."""
        question = asked.question
        if isinstance(question, Predict) and question.pairs is not None:
            return len(question.pairs[0].values) <= QUICK_PAIRS
        if not isinstance(question, Recommend) or not isinstance(question.rows, Texts):
            return False
        key = _without_rows(question)
        new = [at for at in self._places(question.rows) if self.kept.get((at, key)) is None]
        if not new:
            return True
        short = self.has_tables and question.level is None and UNKNOWN not in new
        return short and len(new) * self.shape[1] <= QUICK_CELLS

    def _lists(self, question: Recommend) -> bytes:
        """Return the list of each row, those that were asked for before as they were sent."""
        if not isinstance(question.rows, Texts):
            raise InvalidInputError("Pass rows, or the entries of new rows.")
        key = _without_rows(question)
        rows = list(zip(question.rows.values, self._places(question.rows), strict=True))
        if question.unknown == "skip":
            rows = [(row, at) for row, at in rows if at != UNKNOWN] or rows
        found: dict[int, bytes] = {}
        new: dict[int, str] = {}
        for row, at in rows:
            kept = self.kept.get((at, key))
            if kept is None:
                new[at] = row
            else:
                found[at] = kept
        unknown = {UNKNOWN: new.pop(UNKNOWN)} if UNKNOWN in new else {}
        for some in filter(None, (new, unknown)):
            found |= self._new_lists(question, key, some)
        lists = [
            # Rows that the model does not know share a list, each under its own name.
            b'{"row":%b,%b' % (encode(row), found[at]) if at == UNKNOWN else found[at]
            for row, at in rows
        ]
        return b'{"lists":[%b],"model":%b}' % (b",".join(lists), self._encoded_version)

    def _new_lists(
        self, question: Recommend, key: Hashable, rows: dict[int, str]
    ) -> dict[int, bytes]:
        """Return the lists of rows by their positions, and keep them."""
        texts = Texts(tuple(rows.values()))
        answer = replace(question, rows=texts).answer(self.recommender)
        made = {}
        for at, found in zip(rows, fields_of_answer(answer)["lists"], strict=True):
            if at == UNKNOWN:
                del found["row"]
            made[at] = encode(found)[1 if at == UNKNOWN else 0 :]
            self.kept.put((at, key), made[at])
        return made

    def _places(self, rows: Texts) -> list[int]:
        known = self.recommender.axes_.rows.by_text
        return [known.get(row, UNKNOWN) for row in rows.values]
