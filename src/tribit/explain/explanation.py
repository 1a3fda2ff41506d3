"""The result of :func:`tribit.explain.explain`: the terms of a score and the effects of the row's entries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tribit.answers import Answer, check_headings
from tribit.data.axis import AnyArray
from tribit.display import cell_text, html_table, html_text
from tribit.errors import printable
from tribit.model.fitted import LIKE
from tribit.model.scores import probability_name

__all__ = ["EntryEffect", "Explanation"]

#: Entries in a printed explanation.
MAX_PRINTED_ENTRIES = 10
#: Residual, in units of x, from which a printed explanation mentions it: below, no probability differs by more than a
#: quarter of it, under one percent.
MIN_PRINTED_RESIDUAL = 0.03
DIFFERENCE = "Difference that each entry makes (with it less without it)"


class EntryEffect(NamedTuple):
    """An entry of the row and its effect.

    Attributes
    ----------
    column : id or int
        Its column: the user's id, else the position.
    label : int
        +1 for a like, -1 for a dislike.
    contribution : float
        Its effect on ``x``: log-odds under the logistic link.
    probability_change : float
        The probability at ``x`` less that at ``x - contribution``.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, random_state=0).fit(seen)
    >>> why = model.explain(0, 2, seen)
    >>> sorted((effect.column, effect.label) for effect in why.entries)
    [(0, 1), (1, 1), (3, -1)]
    """

    column: Any
    label: int
    contribution: float
    probability_change: float


@dataclass(frozen=True, repr=False)
class Explanation(Answer):
    """The terms of a score, which sum to it, and the effect of each observed entry of the row.

    Attributes
    ----------
    row, column : id or int
        The cell: the user's ids, else positions.
    probability : float
        Probability of ``meaning``.
    x : float
        The score: log-odds under the logistic link, before calibration.
    parts : mapping of str to float
        Contributions to ``x`` of intercepts, the labels of the row, implicit and side features; they sum to ``x``.
        Terms of the row are products with the column's factors without its features, whose own term has the whole row.
    entries : tuple of EntryEffect
        The observed entries of the row, largest absolute effects first.
    residual : float
        ``x`` less its value at the row's own minimum, where effects are computed. It is large where the fit does not
        solve the row's own problem: with a smooth bound for a ball, inverse propensity weights, or other entries than
        those of the fit.
    meaning : str
        The event of the probability: "a like", or the identified event.
    others : tuple of EntryEffect
        Observed entries with smaller effects, where ``entries`` has only the first.
    basis : str
        "model"; "column alone" or "row alone" if the row or the column is unknown to the model, or has neither entries
        nor features; "average" if both are.
    names : (str, str)
        Words for a row and a column in the text, and the heading of the column of ids in the table.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, random_state=0).fit(seen)
    >>> why = model.explain(0, 2, seen)
    >>> sorted(why.parts)
    ['column effect', 'labels of the row', 'overall level', 'row effect']
    """

    row: Any
    column: Any
    probability: float
    x: float
    parts: Mapping[str, float] = field(hash=False)
    entries: tuple[EntryEffect, ...]
    residual: float
    meaning: str = LIKE
    others: tuple[EntryEffect, ...] = ()
    basis: str = "model"
    names: tuple[str, str] = ("row", "column")

    def first(self, n: int) -> Explanation:
        """Return the explanation with the first ``n`` entries; the remaining ones are in ``others``."""
        found = self.entries + self.others
        return replace(self, entries=found[:n], others=found[n:])

    @property
    def rest(self) -> float:
        """``x`` less the intercepts of matrix and column and all effects of single entries.

        It has the contributions of features, the mean of the implicit features, unobserved cells, a ball, and
        information that several entries share.
        """
        given = self.parts["overall level"] + self.parts["column effect"]
        return self.x - given - sum(entry.contribution for entry in self.entries + self.others)

    def table(self) -> dict[str, AnyArray]:
        """Return the entries of the row as columns of a table."""
        _, *names = EntryEffect._fields
        ids, *columns = list(zip(*self.entries, strict=True)) or [() for _ in EntryEffect._fields]
        measures = {
            name: np.array(values, dtype=np.int8 if name == "label" else np.float64)
            for name, values in zip(names, columns, strict=True)
        }
        check_headings(self.names[1:], measures)
        return {self.names[1]: np.fromiter(ids, dtype=object), **measures}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, ready for JSON if the ids are; ids have the headings of the table."""
        entries = [entry._asdict() for entry in self.entries]
        others = {
            "probability": float(self.probability),
            "x": float(self.x),
            "parts": {name: float(part) for name, part in self.parts.items()},
            "entries": [{self.names[1]: entry.pop("column"), **entry} for entry in entries],
            "n_entries": len(self.entries) + len(self.others),
            "residual": float(self.residual),
            "meaning": str(self.meaning),
            "basis": self.basis,
        }
        check_headings(self.names, others)
        check_headings(self.names[1:], EntryEffect._fields[1:])
        return {**dict(zip(self.names, (self.row, self.column), strict=True)), **others}

    def text(self, most: int | None = None) -> str:
        """Return the terms of ``x`` and the entries with the largest effects."""
        del most
        row, column = cell_text(str(self.row)), cell_text(str(self.column))
        name = probability_name(self.meaning)
        lines = [
            f"{name} of {column} for {row}: {self.probability:.3f} (x = {self.x:+.3f}, the sum of)"
        ]
        parts = {self._in_words(name): value for name, value in self.parts.items()}
        width = max(len(name) for name in parts)
        lines += [f"  {name:<{width}}  {value:+.3f}" for name, value in parts.items()]
        if not self.entries:
            lines.append(self._in_words("The row has no entries."))
        else:
            lines += self._lines()
        if abs(self.residual) > MIN_PRINTED_RESIDUAL:
            lines.append(
                self._in_words("At the row's own minimum, where effects are computed, x is ")
                + f"{self.x - self.residual:+.3f}."
            )
        if self.basis != "model":
            basis = self._in_words(self.basis)
            lines.append(f"The model does not know the cell; the basis is the {basis}.")
        if self.meaning != LIKE:
            lines.append(f"Probabilities are of {self.meaning}.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the terms of ``x`` and the entries with the largest effects for a notebook."""
        summary, *_ = self.text().splitlines()
        parts = {"term": map(self._in_words, self.parts), "x": self.parts.values()}
        table = self.table()
        shown = {name: values[:MAX_PRINTED_ENTRIES].tolist() for name, values in table.items()}
        entries = html_table(shown, len(self.entries) + len(self.others))
        return html_text(summary) + html_table(parts, len(self.parts)) + entries

    def _in_words(self, text: str) -> str:
        """Return a text with the words for a row and a column."""
        words = dict(zip(("row", "column"), map(printable, self.names), strict=True))
        return re.sub(r"\b(row|column)\b", lambda found: words[found[1]], text)

    def _lines(self) -> list[str]:
        """Return a line for each of the entries with the largest effects."""
        shown, n = self.entries[:MAX_PRINTED_ENTRIES], len(self.entries) + len(self.others)
        some = f", the {len(shown)} largest of {n}" if n > len(shown) else ""
        names = [cell_text(str(entry.column)) for entry in shown]
        width = max(len("entry"), *(len(name) for name in names))
        title = probability_name(self.meaning)
        lines = [f"{DIFFERENCE}{some}:", f"  {'label':<8}  {'entry':<{width}}       x  {title}"]
        for name, entry in zip(names, shown, strict=True):
            label = "liked" if entry.label > 0 else "disliked"
            change = f"{entry.contribution:+.3f}  {entry.probability_change:+{len(title)}.4f}"
            lines.append(f"  {label:<8}  {name:<{width}}  {change}")
        return lines
