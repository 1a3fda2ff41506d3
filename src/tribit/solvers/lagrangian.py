"""F plus a penalty for every entry outside an interval, with a multiplier for each: what a round minimises.

    F(U V') + sum_ij [weight / 2  dist(x + y / weight, [low, high])^2 - y^2 / (2 weight)]

Entries are formed tile by tile, and only multipliers other than 0 are kept, the largest where there are many: memory
grows with the observed entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.smooth import Smooth
from tribit.errors import parameter
from tribit.model.factors import Factors
from tribit.solvers.accelerated import Scales

Array = NDArray[np.floating[Any]]
Interval = tuple[float, float]
Places = tuple[NDArray[np.int64], Array]  # positions in row-major order, and what is there

CELLS = 1 << 16  #: entries of X that are looked at together: a tile of rows, which stays in cache
#: Most multipliers: SHARE for each observed entry and ROOM more. Entries without one still have a penalty.
SHARE, ROOM = 4, 1 << 14
#: The penalty's weight, in curvatures of an entry: the first, the largest, and how it grows. Faster growth ends at
#: poorer minima; a smaller limit leaves entries outside where losses are steep, as those of rare likes.
FIRST, HEAVIEST, GROWTH = 4.0, 4096.0, 1.25


def tile_rows(shape: tuple[int, int]) -> list[slice]:
    """Return the rows of each tile of a matrix."""
    step = max(1, CELLS // shape[1])
    return [slice(i, min(i + step, shape[0])) for i in range(0, shape[0], step)]


class Lagrangian:
    """F plus the penalties of all entries, of which only the multipliers are kept."""

    def __init__(self, objective: Smooth, interval: Interval, curvature: float) -> None:
        self.objective, self.interval = objective, interval
        self.low, self.high = interval
        self.bounded = bool(np.isfinite(interval).any())
        self.weight, self.curvature = FIRST * curvature, curvature
        self.intercept_bound = objective.intercept_bound
        if self.bounded:
            objective.observations.require_local(
                f"{parameter('alpha')} without a ball that implies it needs a multiplier for each entry at the bound, "
                f"and these are not kept on a cluster: pass a max-norm {parameter('radius')} of at most "
                f"{parameter('alpha')}, or fit on one machine, without a client."
            )
        self.room = ROOM + SHARE * len(objective.observations)
        self._keep(np.zeros(0, dtype=np.int64), np.zeros(0))
        self.counts = objective.entry_counts()
        # Penalties come with the first update: from the start they lead to poorer minima.
        self.penalised = False

    def value(self, factors: Factors) -> float:
        """Return F plus the penalties."""
        total = self.objective.value(factors)
        if not self.penalised:
            return total
        return total + self._penalty(sum(tile.squares() for tile in self._tiles(factors)))

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return F plus the penalties, and the gradient."""
        total, gradient = self.objective.gradient(factors)
        if not self.penalised:
            return total, gradient
        U, V, squares = factors.row_factors, factors.column_factors, 0.0
        in_U, in_V = gradient.row_factors.copy(), np.zeros(V.shape)
        for tile in self._tiles(factors):
            in_U[tile.rows] += self.weight * (tile.over @ V)
            in_V += tile.over.T @ U[tile.rows]
            squares += tile.squares()
        in_V = gradient.column_factors + self.weight * in_V
        return total + self._penalty(squares), replace(
            gradient, row_factors=in_U, column_factors=in_V
        )

    def scales(self, factors: Factors) -> Scales:
        """Return the curvature of each row and column for factors of unit size, at least that of one entry."""
        rows, columns = (self.curvature * count for count in self.counts)
        intercepts = self._intercept_scales(rows, columns)
        if self.penalised:
            for tile in self._tiles(factors):
                outside = tile.over != 0.0
                rows[tile.rows] += self.weight * np.count_nonzero(outside, axis=1)
                columns += self.weight * np.count_nonzero(outside, axis=0)
        rows, columns = (np.maximum(each, self.curvature) for each in (rows, columns))
        return Scales(rows, columns, *intercepts)

    def _intercept_scales(self, rows: Array, columns: Array) -> tuple[Any, ...]:
        """Return the scales of the intercepts, infinite for what is no unknown; the penalties do not read them."""
        if not self.objective.intercept:
            return ()
        ridge = self.objective.intercept_ridge.l2
        one = (
            np.inf
            if np.isfinite(self.intercept_bound)
            else max(float(np.sum(rows)), self.curvature)
        )
        least = self.curvature
        return one, np.maximum(rows, least) + ridge, np.maximum(columns, least) + ridge

    def update(self, factors: Factors) -> float:
        """Set the multipliers, and return by how much entries differ from where the old and new ones want them."""
        if not self.bounded:
            return 0.0
        width, missed, lowest, held = self.objective.shape[1], 0.0, 0.0, 0
        kept: list[Places] = []
        for tile in self._tiles(factors):
            over = tile.over.reshape(-1)
            if self.penalised:
                cells = np.flatnonzero(np.abs(over) > lowest)
                kept.append((cells + tile.rows.start * width, over[cells]))
                held += cells.size
                if held > self.room:
                    kept, lowest = _largest(kept, self.room)
                    held = kept[0][0].size
            over[tile.kept] -= tile.shifts
            missed += tile.squares()
        if kept:
            keys, shifts = (np.concatenate(parts) for parts in zip(*kept, strict=True))
            self._keep(keys, self.weight * shifts)
        self.penalised = True
        return float(np.sqrt(missed))

    def grow(self) -> None:
        """Make the penalty heavier."""
        self.weight = min(self.weight * GROWTH, self.curvature * HEAVIEST)

    def _keep(self, keys: NDArray[np.int64], multipliers: Array) -> None:
        """Keep multipliers at positions in row-major order, increasing, and find where each tile's begin."""
        self.keys, self.multipliers = keys, multipliers
        self.square = float(np.vdot(multipliers, multipliers))
        height, width = self.objective.shape
        self.blocks = tile_rows((height, width))
        ends = [block.start * width for block in self.blocks] + [height * width]
        self.offsets = np.searchsorted(keys, ends)

    def _tiles(self, factors: Factors) -> Iterator[_Tile]:
        """Form ``x + y / weight`` tile by tile, and yield by how much it is outside the interval."""
        U, V = factors.row_factors, factors.column_factors
        for rows, (a, b) in zip(self.blocks, pairwise(self.offsets), strict=True):
            z = U[rows] @ V.T
            kept = self.keys[a:b] - rows.start * V.shape[0]
            shifts = self.multipliers[a:b] / self.weight
            z.reshape(-1)[kept] += shifts
            z -= np.clip(z, self.low, self.high)
            yield _Tile(rows, z, kept, shifts)

    def _penalty(self, squares: float) -> float:
        """Return the sum of penalties, 0 where every entry is where its multiplier wants it."""
        return 0.5 * (self.weight * squares - self.square / self.weight)


@dataclass(frozen=True)
class _Tile:
    """A few rows of X: by how much entries are outside the interval, and which have multipliers."""

    rows: slice
    over: Array  #: how far ``x + y / weight`` is outside: negative below, 0 inside
    kept: NDArray[np.int64]  #: positions with multipliers
    shifts: Array  #: y / weight there

    def squares(self) -> float:
        """Return the sum of squares of what is outside."""
        return float(np.vdot(self.over, self.over))


def _largest(kept: list[Places], room: int) -> tuple[list[Places], float]:
    """Keep half of ``room``, the entries furthest outside, and return how far the next one is."""
    keys, over = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    far, last = np.abs(over), over.size - room // 2 - 1
    lowest = float(np.partition(far, last)[last])
    return [(keys[far > lowest], over[far > lowest])], lowest
