"""Blocks of rows and columns of like activity, and the drawing of tiles among them.

Rows and columns are put in the order of their number of observed entries and cut into blocks of ``BLOCK``; a block of
rows and one of columns meet in a tile. Blocks with numbers of entries of the same size, in powers of two, make a class:
rows and columns that are seen about as often have scores of about the same spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Rows and columns of a tile: enough for matrix products, and few enough that a row meets many blocks, for what the
#: entries of a tile have in common does not average out within it.
BLOCK = 64
#: Cells in the sample for each observed entry, so that twice the columns with the same entries do not enlarge it. Four
#: times as many took up to 1.5 times as long, for objectives .02% to .06% lower (5,000 x 5,000 and x 10,000, drawn).
CELLS = 5
#: Most and least number of tiles that a block along the longer side meets on average, and the share of them that each
#: block meets in any case: a row meets up to 512 columns on average. Fits with 2 tiles had their sample enlarged.
TILES, FEW_TILES, LEAST = 8, 3, 0.3
#: Fractional part of the golden ratio: its multiples modulo 1 fill an interval evenly, however many there are.
GOLDEN = 0.6180339887498949


class Blocks:
    """One axis of the matrix in blocks of ``BLOCK``.

    Attributes
    ----------
    order : array of shape (size,)
        The row (or column) at each place, those with most observed entries first.
    places : array of shape (size,)
        The place of each row (or column).
    classes : array of shape (n_blocks,)
        The class of each block; 0 is that of the largest numbers.
    """

    def __init__(self, counts: Places) -> None:
        self.size, self.block = counts.size, BLOCK
        # Equal numbers in an order of no meaning: neighbours in a table may be alike in more than their number.
        scattered = (np.arange(counts.size, dtype=np.uint64) * np.uint64(2654435761)) % 2**32
        self.order = np.lexsort((scattered, -counts))
        self.places = np.empty_like(self.order)
        self.places[self.order] = np.arange(counts.size)
        starts = np.arange(0, counts.size, self.block)
        sums = np.add.reduceat(counts[self.order].astype(np.float64), starts)
        self.widths = np.minimum(counts.size - starts, self.block)
        size = np.floor(np.log2(sums / self.widths + 1.0)).astype(np.int64)
        self.classes = np.unique(-size, return_inverse=True)[1].reshape(-1)
        self.n_blocks, self.n_classes = starts.size, int(self.classes.max()) + 1
        #: Where each class begins, in blocks and in places; one more for the end.
        self.ends = np.searchsorted(self.classes, np.arange(self.n_classes + 1))
        self.place_ends = np.minimum(self.ends * self.block, counts.size)

    def draw(self, n: int, draws: np.random.Generator) -> Places:
        """Return ``n`` rows (or columns) of each class, with replacement, of shape (n_classes, n)."""
        low, high = self.place_ends[:-1, None], self.place_ends[1:, None]
        return np.asarray(self.order[draws.integers(low, high, size=(self.n_classes, n))])


@dataclass(frozen=True, eq=False)
class Tiles:
    """Drawn tiles by block of rows: their blocks of columns and the inverses of their probabilities."""

    ends: Places
    columns: Places
    weights: Array

    def of(self, number: int) -> tuple[Places, Array]:
        """Return the blocks of columns that one block of rows meets, and their weights."""
        here = slice(self.ends[number], self.ends[number + 1])
        return self.columns[here], self.weights[here]

    def transposed(self, n_columns: int) -> Tiles:
        """Return the same tiles by block of columns."""
        rows = np.repeat(np.arange(self.ends.size - 1), np.diff(self.ends))
        order = np.argsort(self.columns, kind="stable")
        ends = np.searchsorted(self.columns[order], np.arange(n_columns + 1))
        return Tiles(ends, rows[order], self.weights[order])


def wanted_tiles(rows: Blocks, columns: Blocks, n_entries: int, unknowns: int) -> float:
    """Return the number of tiles that a block along the longer side is to meet on average.

    ``CELLS`` cells for each observed entry, within limits that grow with the ``unknowns`` of a row, which need
    as many more columns.
    """
    longer = max(rows.size, columns.size)
    most, least = max(TILES, unknowns / 2), max(FEW_TILES, unknowns / 4)
    return float(np.clip(CELLS * n_entries / (longer * BLOCK), least, most))


def probabilities(rows: Blocks, columns: Blocks, spread: Array, tiles: float) -> Array:
    """Return the probability that a tile is drawn, for each class of rows and of columns.

    In proportion to ``spread``, the standard deviation of what is to be summed in a tile, which for a given number of
    tiles makes the variance of the sum least (Neyman 1934); between a floor, for which ``LEAST`` is the share, and 1.

    Parameters
    ----------
    spread : array of shape (n_row_classes, n_column_classes)
        At least 0.
    tiles : float
        Number of tiles that a block along the longer side meets on average.
    """
    longer = max(rows.n_blocks, columns.n_blocks)
    short = min(rows.n_blocks, columns.n_blocks)
    counts = np.outer(np.diff(rows.ends), np.diff(columns.ends)).astype(np.float64)
    floor = min(LEAST * tiles / short, 1.0)
    budget = min(tiles / short, 1.0) * longer * short
    if not np.any(spread > 0) or budget >= counts.sum():
        return np.full(counts.shape, budget / counts.sum())

    def chances(scale: float) -> Array:
        return np.asarray(np.clip(scale * spread, floor, 1.0))

    low, high = 0.0, 1.0 / float(spread[spread > 0].min())
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(np.sum(chances(middle) * counts)) < budget:
            low = middle
        else:
            high = middle
    return chances(high)


def draw_tiles(rows: Blocks, columns: Blocks, chances: Array, draws: np.random.Generator) -> Tiles:
    """Return a systematic sample of the tiles of each block of rows (Madow 1949), with the given probabilities.

    Along the columns in their order a tile is drawn where the sum of probabilities passes a whole number plus an
    offset. Each offset is uniform, so that the weights ``1 / probability`` make sums unbiased, and those of successive
    blocks of rows are multiples of the golden ratio apart, so that blocks of columns are met about equally often.
    """
    found, weights, numbers = [], [], []
    offset = float(draws.random())
    for kind in range(rows.n_classes):
        here = chances[kind, columns.classes]
        sums = np.cumsum(here)
        sums[-1] = round(sums[-1], 9)  # a sum that is a whole number draws as many
        blocks = np.arange(rows.ends[kind], rows.ends[kind + 1])
        offsets = (offset + GOLDEN * blocks) % 1.0
        marks = np.arange(int(np.ceil(sums[-1])) + 1)
        asked = marks + offsets[:, None]
        inside = asked < sums[-1]
        drawn = np.searchsorted(sums, asked[inside], side="right")
        numbers.append(inside.sum(axis=1))
        found.append(drawn)
        weights.append(1.0 / here[drawn])
    ends = np.concatenate([[0], np.cumsum(np.concatenate(numbers))])
    return Tiles(ends, np.concatenate(found), np.concatenate(weights))
