"""The value of lists: likes and dislikes in them, had all listed cells been rated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.answers import Answer
from tribit.data.axis import Positions, first_true
from tribit.errors import InvalidInputError, listed, parameter, quoted
from tribit.estimates.estimation import SELECTIONS
from tribit.estimates.list_value import ListValues, estimate_list_values
from tribit.questions.aligned import columns_of, given_probabilities
from tribit.questions.base import Question, option
from tribit.questions.kinds import Entries, Ids, Table, Texts, find, known_entries, unknown_id

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

#: Name of a system whose table has no column of systems.
LISTS = "lists"


@dataclass(frozen=True, eq=False)
class Value(Question[ListValues]):
    """Return the value of lists: the share of likes among the listed cells, had all of them been rated.

    The labels of ``table`` evaluate the lists of this model or of any other system; none of them may be an entry of
    the fit. The estimate is doubly robust, and makes no statement on effects of the position in a list or of its
    presentation. Pass ``{"ours": lists, "theirs": lists}``, or a table with a column ``system``, to compare systems.
    """

    lists: Table | None = option(
        None,
        "Listed cells: row ids, column ids and, for several systems, a column system; first without a model.",
        argument=True,
    )
    table: Entries | None = option(
        None, "Labels that evaluate the lists, and were not used to make them."
    )
    selection: str = option(
        "uniform",
        "How cells came to have labels: uniform within a row, or modelled by rows and columns.",
        choices=SELECTIONS,
    )
    q: Table | None = option(
        None,
        "Known probabilities of labels: row ids, then a column for each column of the table; or an array.",
    )
    versus: Ids | None = option(None, "Add differences from the value of this system.")
    max_weight: float | None = option(None, "Largest weight of a label, 1 / q.", gt=1, lt=1e9)
    level: float = option(0.95, "Level of the intervals.", gt=0, lt=1)
    random_state: int = option(0, "Seed of the folds of rows that predictions are fitted on.", ge=0)

    @classmethod
    def sources(cls, model: Path, values: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        """Return the table that evaluates in the place of a model, where the first file has the lists."""
        if values.get("lists") is not None or values.get("table") is None:
            return model, values
        return values["table"], values | {"lists": model, "table": None}

    def answer(self, recommender: FittedRecommender) -> ListValues:
        """Return the values."""
        if self.lists is None:
            raise InvalidInputError(
                f"{parameter('lists')} is missing: pass a table of the listed cells."
            )
        fit, entries = recommender.seen_, None
        if self.table is not None:
            entries = known_entries(recommender, self.table, "skip")[0]
        elif not recommender.has_model:
            fit, entries = None, recommender.require_entries("they evaluate the lists")
        if entries is None:
            raise InvalidInputError(
                f"{parameter('table')} is missing: pass labels that the fit does not have (tribit split makes such a "
                "part); on those of the fit its lists would be flattered."
            )
        q: Any = self.selection
        if self.q is not None:
            q = given_probabilities(recommender, self.q, self.selection)
        found = estimate_list_values(
            self._lists(recommender),
            entries,
            fit=fit,
            q=q,
            max_weight=self.max_weight,
            level=self.level,
            random_state=self.random_state,
        )
        if self.versus is None:
            return found
        names = self.versus.values if isinstance(self.versus, Texts) else (self.versus,)
        if len(names) != 1 or str(names[0]) not in found.systems:
            raise InvalidInputError(
                f"{parameter('versus')} must be one of the systems {listed(found.systems.tolist())}; got "
                f"{quoted(', '.join(map(str, names)))}."
            )
        return replace(found, further=found.versus(str(names[0])))

    def _lists(self, recommender: FittedRecommender) -> dict[str, tuple[Positions, Positions]]:
        """Return the listed cells of each system."""
        given = self.lists
        if isinstance(given, Mapping) and any(_is_table(each) for each in given.values()):
            return {str(name): _cells(recommender, each) for name, each in given.items()}
        columns = _columns(given)
        if "system" not in columns:
            return {LISTS: _cells(recommender, columns)}
        systems = np.array([str(each) for each in columns.pop("system")])
        return {
            name: _cells(
                recommender,
                {
                    key: [values[at] for at in np.flatnonzero(systems == name)]
                    for key, values in columns.items()
                },
            )
            for name in dict.fromkeys(systems.tolist())
        }


def _is_table(given: Any) -> bool:
    return isinstance(given, Mapping | Answer) or hasattr(given, "columns")


def _columns(given: Any) -> dict[str, list[Any]]:
    return columns_of(given.table() if isinstance(given, Answer) else given, "lists")


def _cells(recommender: FittedRecommender, table: Any) -> tuple[Positions, Positions]:
    """Return the positions of listed cells; an unknown id is refused."""
    columns = _columns(table)
    given = list(columns)
    names = recommender.headings if set(recommender.headings) <= set(given) else tuple(given[:2])
    sides = []
    for axis, name in zip(recommender.axes_, names, strict=True):
        texts = [str(each) for each in columns[name]]
        places = find(axis, Texts(tuple(texts)), unknown_is_error=False)
        if (bad := first_true(places < 0)) is not None:
            raise unknown_id(axis, texts[bad])
        sides.append(places)
    return sides[0], sides[1]
