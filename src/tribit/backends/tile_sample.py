"""The sample of tiles: strata of rows and columns by activity, probabilities, and control variates.

Rows and columns are sorted by their number of observed entries and cut into blocks of ``BLOCK``; a block of rows and a
block of columns meet in a tile. Blocks whose numbers of entries have the same order of magnitude, in powers of two,
make a class: rows and columns of similar activity have scores of similar spread. Each pair of classes has a quadratic,
the control variate of the dense term:

    h(z)  ~  c(z) = c0 + c1 z + c2 z^2 / 2

Its sum over all entries is exact through Gram matrices, ``sum_j c2 (p' q_j)^2 = p' (sum_j c2 q_j q_j') p``. The
residual ``h - c`` is small, and its sum is estimated by sampling. Far from the fitted ``z`` the residual would fall as
fast as a quadratic, times the weight of the sample, and the estimate would be unbounded below. So ``h`` is continued
with the curvature ``c2`` beyond an interval wider than the fitted ``z``: there ``h - c`` is linear.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.losses import WeightedLoss

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Rows and columns of a tile: enough for matrix products, and few enough that a row meets many blocks, for what the
#: entries of a tile have in common does not average out within it.
BLOCK = 64
#: Cells in the sample for each observed entry, so that twice the columns with the same entries do not enlarge it. Four
#: times as many took up to 1.5 times as long, for objectives .02% to .06% lower (synthetic tables).
CELLS_PER_ENTRY = 5
#: Most and least number of tiles that a block along the longer side meets on average, and the share of them that each
#: block meets in any case: a row meets up to 512 columns on average. Fits with 2 tiles had their sample enlarged.
MAX_MEAN_TILES, MIN_MEAN_TILES, FLOOR_SHARE = 8, 3, 0.3
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
    """Sampled tiles by block of rows: their blocks of columns and the inverses of their probabilities."""

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


def tiles_per_block(rows: Blocks, columns: Blocks, n_entries: int, unknowns: int) -> float:
    """Return the number of tiles that a block along the longer side is to meet on average.

    ``CELLS_PER_ENTRY`` cells for each observed entry, within limits that grow with the ``unknowns`` of a row: more
    unknowns need as many more columns.
    """
    longer = max(rows.size, columns.size)
    most, least = max(MAX_MEAN_TILES, unknowns / 2), max(MIN_MEAN_TILES, unknowns / 4)
    return float(np.clip(CELLS_PER_ENTRY * n_entries / (longer * BLOCK), least, most))


def tile_probabilities(rows: Blocks, columns: Blocks, spread: Array, tiles: float) -> Array:
    """Return the probability that a tile is sampled, for each class of rows and of columns.

    In proportion to ``spread``, the standard deviation of the terms of a tile: for a given number of tiles that makes
    the variance of the sum least (Neyman 1934). They lie between a floor, set by ``FLOOR_SHARE``, and 1.

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
    floor = min(FLOOR_SHARE * tiles / short, 1.0)
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

    Along the columns in their order a tile is sampled where the sum of probabilities passes a whole number plus an
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
        positions = marks + offsets[:, None]
        inside = positions < sums[-1]
        places = np.searchsorted(sums, positions[inside], side="right")
        numbers.append(inside.sum(axis=1))
        found.append(places)
        weights.append(1.0 / here[places])
    ends = np.concatenate([[0], np.cumsum(np.concatenate(numbers))])
    return Tiles(ends, np.concatenate(found), np.concatenate(weights))


#: Variance of ``z`` below which the slope of ``h'`` is more and more the curvature at the mean: there is no other then.
MIN_VARIANCE = 1e-3
#: Half-width of the interval in which ``h`` is the link's own: at least this, and so many times the largest distance
#: from the mean among the ``z`` that the quadratic was fitted on.
MIN_HALF_WIDTH, HALF_WIDTHS = 0.5, 2.0
#: Multiples of that half-width at which the curvature of ``h`` is looked up for where it falls below ``c2``. Beyond the
#: last of them the curvature of a link that has not fallen by then does not fall: the interval has no end.
END_MULTIPLES = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0])


@dataclass(frozen=True, eq=False)
class ControlVariates:
    """Coefficients for each class of rows and of columns, arrays of shape (n_row_classes, n_column_classes).

    Attributes
    ----------
    constant, linear, square : array
        ``c0``, ``c1`` and ``c2``.
    bend : array
        Mean of ``h''``, at least a little above 0.
    spread : array
        Root mean square of ``h'(z) - c1 - c2 z``.
    low, high : array
        Ends of the interval in which ``h`` is the link's own.
    """

    constant: Array
    linear: Array
    square: Array
    bend: Array
    spread: Array
    low: Array
    high: Array

    @property
    def error(self) -> float:
        """Root mean square over the pairs of classes of how far, in ``z``, the quadratics' derivatives are off."""
        return float(np.sqrt(np.mean((self.spread / self.bend) ** 2)))

    @property
    def transposed(self) -> ControlVariates:
        """The same for the transpose of the matrix."""
        return ControlVariates(*(getattr(self, each.name).T for each in fields(self)))


def fit_control_variates(loss: WeightedLoss, z: Array) -> ControlVariates:
    """Return the quadratics whose derivatives are nearest to ``h'`` in the least-squares sense.

    Parameters
    ----------
    z : array of shape (n_row_classes, n_column_classes, n)
        A sample of ``z = scale x`` for each pair of classes.
    """
    z = np.asarray(z, dtype=np.float64)
    value, first, second = np.empty_like(z), z.copy(), np.empty_like(z)
    loss.apply(first, value, second, np.empty_like(z))
    mean, bend = z.mean(axis=2), np.maximum(second.mean(axis=2), 1e-12)
    away = z - mean[:, :, None]
    variance, together = np.mean(away**2, axis=2), np.mean(away * first, axis=2)
    # A quadratic that opens downwards would reward large entries that no sample sees.
    square = np.maximum((together + MIN_VARIANCE * bend) / (variance + MIN_VARIANCE), 0.0)
    linear = first.mean(axis=2) - square * mean
    left = first - linear[:, :, None] - square[:, :, None] * z
    constant = np.mean(value - (linear[:, :, None] + 0.5 * square[:, :, None] * z) * z, axis=2)
    spread = np.sqrt(np.mean(left**2, axis=2))
    reach = np.maximum(HALF_WIDTHS * np.max(np.abs(away), axis=2), MIN_HALF_WIDTH)
    low, high = (_end(loss, mean, side * reach, square) for side in (-1.0, 1.0))
    return ControlVariates(constant, linear, square, bend, spread, low, high)


def _end(loss: WeightedLoss, mean: Array, reach: Array, square: Array) -> Array:
    """Return the first of some places at ``mean + reach`` and farther where ``h''`` is below ``c2``; else infinity."""
    places = mean[:, :, None] + reach[:, :, None] * END_MULTIPLES
    first, second = places.copy(), np.empty_like(places)
    loss.apply(first, None, second, np.empty_like(places))
    below = second < square[:, :, None]
    nearest = np.take_along_axis(places, np.argmax(below, axis=2)[:, :, None], axis=2)[:, :, 0]
    return np.where(np.any(below, axis=2), nearest, np.sign(reach) * np.inf)
