"""Reasons for a cell, and rows or columns that are alike, by ids as a command line has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tribit.data.axis import AnyArray, named
from tribit.errors import InvalidInputError, parameter
from tribit.explain import Explanation
from tribit.quoting import quoted
from tribit.recommender.facts import says_like
from tribit.workflows.answer_tables import id_headings
from tribit.workflows.bundles import PathLike, opened, positions_of


def explain_ids(model_path: PathLike, row: str, column: str) -> tuple[Explanation, str | None]:
    """Return which entries of a row pulled the score of a column up or down; ids are text, as a file has them.

    And what probabilities are of, where it is not a like.
    """
    bundle = opened(model_path)
    ids = (_known_id(bundle, side, name) for side, name in enumerate((row, column)))
    search = bundle.model_.search_
    meaning = None if search is None or says_like(bundle.model_) else str(search.meaning)
    return bundle.explain(*ids), meaning


def similar_ids(
    model_path: PathLike, *, row: str | None = None, column: str | None = None, n: int = 10
) -> dict[str, AnyArray]:
    """Return a table of the rows (or columns) that are most alike to one, and their similarities."""
    if (row is None) == (column is None):
        raise InvalidInputError(f"Pass either {parameter('row')} or {parameter('column')}.")
    bundle = opened(model_path)
    name, side = (row, 0) if row is not None else (column, 1)
    sought = {("rows", "columns")[side]: [_known_id(bundle, side, str(name))]}
    found = bundle.similar(n=n, **sought)
    title = id_headings(bundle, {})[side]
    return {title: found.nearest[0], "similarity": found.similarities[0]}


def _known_id(bundle: Any, side: int, name: str) -> Any:
    """Return an id as the model has it."""
    axis = bundle.model_._axes[side]
    place = positions_of(axis, np.array([name], dtype=object))
    if place[0] < 0:
        raise InvalidInputError(
            f"The {axis.name} id {quoted(name)} is not one the model was fitted on; pass one such as "
            f"{named(axis.ids, 0)}."
        )
    return axis.names(place)[0]
