"""Bundles of the command line: opened, and asked for rows and columns that nobody knows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import AnyArray, Axis, Positions
from tribit.data.ingest import Checked, merge_duplicates
from tribit.data.observations import Observations
from tribit.data.reading import Reading, Records
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.folding.positions import without_entries
from tribit.folding.unknown import with_unknown
from tribit.model.factors import Factors
from tribit.quoting import quoted
from tribit.recommender import Recommender

PathLike: TypeAlias = str | os.PathLike[str]

#: Basis of a prediction, by whether the row and the column are known.
BASES = {
    (True, True): "model",
    (False, True): "column alone",
    (True, False): "row alone",
    (False, False): "average",
}


def opened(path: PathLike) -> Recommender:
    """Return a saved bundle, or a model alone as one."""
    return Recommender.load(path)


def reading_of(bundle: Recommender, **rules: Any) -> Reading:
    """Return the rules by which the bundle's own table was read, but for those that are given."""
    kept = bundle.reading_
    if kept is None:
        kept = Reading(like_at=bundle.model_.like_at)
    told = {name: value for name, value in rules.items() if value is not None}
    if kept.layout == "wide" and told.keys() & {"column", "value"}:
        told = {
            "layout": "long",
            **told,
        }  # only a table with an entry in each record has such columns
    if told.get("layout") == "wide":
        told = {"column": None, "value": None, **told}
    # Words for likes take the place of a bar, and a bar that of words.
    if told.keys() & {"like", "dislike"}:
        told = {"like_at": None, **told}
    elif "like_at" in told:
        told |= {"like": None, "dislike": None}
    return replace(kept, notes=(), **told)


@dataclass(frozen=True, eq=False)
class PlacedPairs:
    """Records of a table as positions of a model, whose last row and column are those of unknown ids.

    Attributes
    ----------
    factors : Factors
        Those of the model; where an id is unknown with a row and a column behind, of which nothing is known.
    rows, columns : array of int
        Positions of the records that were kept.
    known : array of bool of shape (2, n)
        Whether the row and the column of each record are known.
    kept : array of bool
        Which records of the table were kept.
    """

    factors: Factors
    rows: Positions
    columns: Positions
    known: NDArray[np.bool_]
    kept: NDArray[np.bool_]

    @property
    def bases(self) -> AnyArray:
        """The basis of each prediction."""
        return np.array([BASES[bool(row), bool(column)] for row, column in self.known.T])


def placed(bundle: Recommender, records: Records, unknown: str) -> PlacedPairs:
    """Return records as positions; an ``unknown`` id is an "error", a reason to "skip", or to "answer" by effects."""
    model = bundle.model_
    sides = []
    for name, axis, ids in zip(
        records.names, model._axes, (records.rows, records.columns), strict=False
    ):
        places = positions_of(axis, ids)
        lost = np.flatnonzero(places < 0)
        if lost.size and unknown == "error":
            first = int(lost[0])
            raise InvalidInputError(
                f"{records.where(first)}: the id {quoted(ids[first])} in column {quoted(name)} is not one the model "
                f"was fitted on; remove such records, or leave them out with {parameter('unknown', 'skip')}."
            )
        sides.append(places)
    known = np.array([places >= 0 for places in sides])
    if not known.any() or (unknown == "skip" and not known.all(axis=0).any()):
        which = "and" if unknown == "skip" else "or"
        raise InvalidInputError(
            f"No entry of {records.name} has a row id {which} a column id that the model knows; "
            f"check {parameter('row')} and {parameter('column')}."
        )
    kept = np.ones(known.shape[1], dtype=bool)
    if unknown == "skip":
        kept = np.all(known, axis=0)
    sides = [
        np.where(places < 0, size, places) for places, size in zip(sides, model.shape_, strict=True)
    ]
    factors = model._factors() if known[:, kept].all() else with_unknown(model)
    return PlacedPairs(factors, sides[0][kept], sides[1][kept], known[:, kept], kept)


def known_entries(bundle: Recommender, records: Records, unknown: str) -> tuple[Observations, int]:
    """Return the entries of a table in the rows and columns of a model, and how many were left out."""
    found = placed(bundle, records, unknown)
    labels = np.ones(records.rows.size, np.int8) if records.labels is None else records.labels
    places = np.flatnonzero(found.kept)
    entries = Checked(
        found.rows, found.columns, labels[found.kept].astype(np.int8), bundle.model_._axes
    )
    merged = merge_duplicates(
        entries, records.reading.duplicates, lambda n: records.where(int(places[n]))
    )
    return Observations.from_checked(merged), int(np.sum(~found.kept))


def are_of_the_fit(bundle: Recommender, entries: Observations) -> bool:
    """Return whether entries may be those of the fit of a file that keeps none, by their numbers; True for others."""
    if bundle.seen_ is not None:
        return True
    counts = {"likes": entries.n_likes, "dislikes": entries.n_dislikes}
    if all(bundle.summary_.get(name, count) == count for name, count in counts.items()):
        return True
    warn(
        TribitWarning(
            "The entries are not those of the fit, which a ranker needs: lists are by the probability of a like alone."
        )
    )
    return False


def with_rows(bundle: Recommender, names: Sequence[str] | None) -> tuple[Recommender, AnyArray]:
    """Return a bundle with the rows of these names, every row for None, and which of them nothing is known of."""
    axis = bundle.model_._axes.rows
    if names is None:
        return bundle, np.zeros(axis.size, dtype=bool)
    texts = np.array(list(names), dtype=object)
    unknown = positions_of(axis, texts) < 0
    if not unknown.any():
        return bundle, unknown
    new = np.array(list(dict.fromkeys(texts[unknown].tolist())), dtype=object)
    if axis.ids is None:
        raise InvalidInputError(
            f"The row {quoted(new[0])} is none of the model's, which count from 0 to {axis.size - 1}; check "
            f"{parameter('only')}."
        )
    new = typed(axis, new)
    nothing = without_entries(Axis(axis.name, new.size, new), bundle.model_._axes.columns)
    with warnings.catch_warnings():
        # Said in the lists themselves.
        warnings.simplefilter("ignore", TribitWarning)
        return bundle.fold_in(nothing), unknown


def positions_of(axis: Axis, texts: AnyArray) -> Positions:
    """Return the position of each id as a file has it, -1 for an unknown one; a model may have numbers or no ids."""
    known = axis.by_text()
    return np.array([known.get(text, -1) for text in texts.tolist()], dtype=np.int64)


def typed(axis: Axis, texts: AnyArray) -> AnyArray:
    """Return ids of a file in the type of the known ones: a model may have been fitted on numbers."""
    places = positions_of(axis, texts)
    ids = texts.astype(object)
    ids[places >= 0] = axis.names(places[places >= 0])
    if axis.ids is not None and axis.ids.dtype.kind in "iu":
        for at in np.flatnonzero(places < 0).tolist():
            if not texts[at].isdecimal() or str(int(texts[at])) != texts[at]:
                raise InvalidInputError(
                    f"The {axis.name} id {quoted(texts[at])} is no number, as the model's ids are; give it one."
                )
            ids[at] = int(texts[at])
        return ids.astype(axis.ids.dtype)
    return ids
