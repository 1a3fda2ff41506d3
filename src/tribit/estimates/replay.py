"""Replay of a design on rows whose labels are all known: cells are asked and filled batch by batch.

A replay measures a design before its cells are paid for, and calibrates its estimates on whole rows
(:mod:`tribit.estimates.whole_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.estimates.asking import Design, choose_cells
from tribit.estimates.designs import Draws
from tribit.estimates.item_response import Items

__all__ = ["Replayed", "Step", "replay_rows", "steps_of"]

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]

#: Least cost of the cells that a batch draws at random in one row, unless fewer are left.
MIN_DRAWN = 20.0


class Step(NamedTuple):
    """Cost of one batch in each row.

    Attributes
    ----------
    greedy, random : array of shape (n,)
        Of the cells that are chosen by gain, and of those that are drawn at random.
    """

    greedy: Array
    random: Array


class Replayed(NamedTuple):
    """Asked cells of some rows.

    Attributes
    ----------
    labels : sparse array of shape (n, d2)
        Labels of the cells that were known at the start or asked.
    draws : Draws
        The asked cells, by the positions of the rows in ``labels``.
    """

    labels: sp.csr_array
    draws: Draws


def steps_of(design: Design, totals: Array, batch: Array) -> list[Step]:
    """Return the batches of some rows: ``batch`` in each until ``totals`` is spent, but many random cells at once."""
    before, found = np.zeros(len(totals)), []
    while (before < totals).any():
        now = np.minimum(batch, totals - before)
        greedy, random = design.split(before, now, totals)
        left = totals - before - greedy
        few = (random > 0) & (random < np.minimum(left, MIN_DRAWN))
        random = np.where(few, np.where(left < 2 * MIN_DRAWN, left, MIN_DRAWN), random)
        found.append(Step(greedy, random))
        before = before + greedy + random
    return found


def replay_rows(
    items: Items,
    truth: NDArray[np.integer[Any]],
    known: Bools,
    steps: Sequence[Step],
    design: Design,
    draws: np.random.Generator,
) -> Replayed:
    """Return the cells that a design asks in rows with all labels known.

    Parameters
    ----------
    items : Items
        Columns of the item response model, fitted on other rows.
    truth : array of shape (n, d2)
        Labels +1 and -1 of all cells.
    known : array of shape (n, d2)
        Mask of the cells that are known at the start.
    steps : sequence of Step
        The batches.
    design : Design
        How cells are chosen.
    draws : Generator
        Draws the random cells.
    """
    seen, asked = known, []
    for number, step in enumerate(steps, start=1):
        labels = sp.csr_array(np.where(seen, truth, 0).astype(np.int8))
        choice = choose_cells(items, labels, step.greedy, step.random, design, draws)
        rows, columns = np.nonzero(choice.chosen)
        asked.append((rows, columns, choice.probability[rows, columns], np.full(rows.size, number)))
        seen = seen | choice.chosen
    columns_of_draws = (np.concatenate(each) for each in zip(*asked, strict=True))
    return Replayed(
        sp.csr_array(np.where(seen, truth, 0).astype(np.int8)), Draws(*columns_of_draws)
    )
