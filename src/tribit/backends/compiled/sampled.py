"""Blocks of rows whose sampled tiles are visited by compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.compiled.tiles import tile_sums
from tribit.backends.sampled import SampledBlock

Array = NDArray[np.floating[Any]]


class CompiledSampledBlock(SampledBlock):
    """The dense term of one block of rows, its tiles by one kernel."""

    def _tile_values(self, scaled: Array) -> Array:
        values, _, _ = self._run(scaled)
        return values

    def _tile_sums(
        self, scaled: Array, *, value: bool, bend: bool
    ) -> tuple[Array | None, Array, Array | None]:
        values, gradients, bends = self._run(scaled)
        return values if value else None, gradients, bends if bend else None

    def _run(self, scaled: Array) -> tuple[Array, Array, Array]:
        values, bends = np.zeros(scaled.shape[0]), np.zeros(scaled.shape[0])
        gradients = np.zeros(scaled.shape)
        if self.columns.size:
            starts = self.columns * self.backend.side.columns.block
            square = self._of_tiles(self.backend.side.sample.controls.square)
            tiles = starts, self.widths, self.weights, *self._ends, square
            found = values, gradients, bends
            tile_sums(*tiles, self.against.Q, np.ascontiguousarray(scaled), *found)
        return values, gradients, bends
