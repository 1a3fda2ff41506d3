"""The result of :func:`tribit.explain.explain`: a score in parts, and the entries that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tribit.answers import Answer
from tribit.data.axis import AnyArray
from tribit.errors import printable
from tribit.model.fitted import LIKE

__all__ = ["EntryEffect", "Explanation"]

#: Entries that a printed explanation shows; the others are counted.
SHOWN = 10
#: Distance of a row from its own minimum, in units of x, from which a printed explanation mentions it: below, no
#: probability differs by more than a quarter of it, under one percent.
WORTH_SAYING = 0.03
DIFFERENCE = "Difference that each entry makes (with it less without it)"


class EntryEffect(NamedTuple):
    """An entry of the row and what it adds.

    Attributes
    ----------
    column : id or int
        Its column: the user's id, else the position.
    label : int
        +1 for a like, -1 for a dislike.
    contribution : float
        What it adds to ``x``: log-odds under the logistic link.
    probability_change : float
        ``P(like)`` at ``x`` less that at ``x - contribution``.
    """

    column: Any
    label: int
    contribution: float
    probability_change: float


@dataclass(frozen=True, repr=False)
class Explanation(Answer):
    """A score in parts that sum to it, and what each seen entry of the row adds.

    Attributes
    ----------
    row, column : id or int
        The cell: the user's ids, else positions.
    probability : float
        Probability of a like.
    x : float
        The score: log-odds under the logistic link, before calibration.
    parts : mapping of str to float
        What intercepts, the labels of the row, implicit and side features add to ``x``; they sum to it. Row parts meet
        the column's factors without its features, whose part meets the whole row.
    entries : tuple of EntryEffect
        The seen entries of the row, those that add most (or take away most) first.
    residual : float
        ``x`` less what the row's own minimum gives: how far from it the fit has stopped. Contributions are those at the
        minimum. It is larger where the fit's problem is not the row's alone: a smooth bound in the place of a ball,
        inverse propensity weights, or other entries than those the model was fitted on.
    meaning : str
        The event that the probability is of: "a like", or what else is identified.
    others : tuple of EntryEffect
        Seen entries that add less than these, where only some were asked for.
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

    def first(self, n: int) -> Explanation:
        """Return the explanation with the first ``n`` entries alone; the others are kept apart."""
        found = self.entries + self.others
        return replace(self, entries=found[:n], others=found[n:])

    @property
    def rest(self) -> float:
        """``x``, less intercepts of matrix and column and all contributions: what no single entry adds.

        Features, the mean of the implicit features, cells that were not seen, a ball, and what several entries say
        alike.
        """
        given = self.parts["overall level"] + self.parts["column effect"]
        return self.x - given - sum(entry.contribution for entry in self.entries + self.others)

    def table(self) -> dict[str, AnyArray]:
        """Return the entries of the row as columns of a table; ``parts`` are another."""
        names = EntryEffect._fields
        columns = list(zip(*self.entries, strict=True)) or [() for _ in names]
        return {
            name: np.fromiter(values, dtype=object)
            if name == "column"
            else np.array(values, dtype=np.int8 if name == "label" else np.float64)
            for name, values in zip(names, columns, strict=True)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON where the ids are."""
        return {
            "row": self.row,
            "column": self.column,
            "probability": float(self.probability),
            "x": float(self.x),
            "parts": {name: float(part) for name, part in self.parts.items()},
            "entries": [entry._asdict() for entry in self.entries],
            "n_entries": len(self.entries) + len(self.others),
            "residual": float(self.residual),
            "meaning": str(self.meaning),
        }

    def text(self, most: int | None = None) -> str:
        """Return the parts, and the entries that matter most."""
        del most
        row, column = printable(str(self.row)), printable(str(self.column))
        lines = [
            f"P(like) of {column} for {row}: {self.probability:.3f} (x = {self.x:+.3f}, the sum of)"
        ]
        width = max(len(name) for name in self.parts)
        lines += [f"  {name:<{width}}  {value:+.3f}" for name, value in self.parts.items()]
        if not self.entries:
            lines.append("The row has no entries.")
        else:
            lines += self._lines()
        if abs(self.residual) > WORTH_SAYING:
            lines.append(
                f"At the row's own minimum, where entries are judged, x is {self.x - self.residual:+.3f}."
            )
        if self.meaning != LIKE:
            lines.append(f"Probabilities are of {self.meaning}.")
        return "\n".join(lines)

    def _lines(self) -> list[str]:
        """Return the entries that matter most, a line each."""
        shown, n = self.entries[:SHOWN], len(self.entries) + len(self.others)
        some = f", the {len(shown)} largest of {n}" if n > len(shown) else ""
        names = [printable(str(entry.column)) for entry in shown]
        width = max(len("entry"), *(len(name) for name in names))
        lines = [f"{DIFFERENCE}{some}:", f"  {'label':<8}  {'entry':<{width}}       x  P(like)"]
        for name, entry in zip(names, shown, strict=True):
            label = "liked" if entry.label > 0 else "disliked"
            change = f"{entry.contribution:+.3f}  {entry.probability_change:+.4f}"
            lines.append(f"  {label:<8}  {name:<{width}}  {change}")
        return lines
