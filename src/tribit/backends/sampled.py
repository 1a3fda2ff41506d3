"""Sums over all entries where these are too many to visit: a quadratic exactly, the rest from a sample of tiles.

On every entry the risk has the dense term ``h(x) = nu l(x, +1) + pu l(x, -1)``. With a quadratic ``c(x)`` near it

    sum_ij h(x_ij)  =  sum_ij c(x_ij)  +  sum_ij [h(x_ij) - c(x_ij)]

the first sum is exact through Gram matrices (:mod:`tribit.backends.control_variates`), and the second is estimated from
tiles drawn with known probabilities (:mod:`tribit.backends.activity_strata`), each weighted by the inverse of its own.
Value and gradients are unbiased, and they are those of one function: the sample and the quadratics stay as they are
until :meth:`SampledBackend.refit_control_variates` draws and fits them anew (sample average approximation). Observed
corrections are exact. A pass costs the observed entries, a sample in proportion to their number, and ``(d1 + d2) k^2``.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends.activity_strata import draw_tiles, probabilities, wanted_tiles
from tribit.backends.base import Backend, Panel
from tribit.backends.control_variates import fit_controls
from tribit.backends.gram_cache import GramCache
from tribit.backends.losses import WeightedLoss
from tribit.backends.sampled_entries import Sample, SampledLayout, SampledSide, SortedFactor
from tribit.backends.sampled_panel import SampledPanel
from tribit.backends.sparse import SparseBackend
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Error of the quadratics (``ControlVariates.error``) up to which the sample is as large as the entries ask for, and
#: most multiples of that for larger ones, in proportion to the square. Mixtures in a ball have .2 to .27, models of the
#: mask .3 to .8 (drawn tables, 5,000 x 5,000 to 20,000 x 40,000), and these need a larger sample.
ERROR, MOST = 0.3, 4.0
#: Entries drawn for each pair of classes to fit the quadratics on, apart from the sample that they correct.
PILOT = 256


class SampledBackend(Backend):
    """Unbiased estimates of sums over all entries, from a sample that is fixed between stages."""

    side: SampledSide
    other: SampledSide
    bounded = False
    takes_all = True
    estimates = True
    layout = SampledLayout

    def __init__(
        self,
        side: SampledSide,
        other: SampledSide,
        loss: WeightedLoss,
        dtype: np.dtype[Any],
        n_jobs: int,
    ) -> None:
        super().__init__(side, other, loss, dtype, n_jobs)
        #: The observed corrections alone.
        self.observed = SparseBackend(side, other, loss, dtype, n_jobs)
        self.seed, self.enlargement = 0, 1
        self._local = threading.local()

    @classmethod
    def build(cls, *args: Any, **options: Any) -> Self:
        """Return the backend with a sample for ``X = 0``."""
        return super().build(*args, **options).drawn(0)

    @classmethod
    def takes(cls, risk: Risk) -> bool:
        """Return whether unobserved entries count, all with the same weights."""
        return super().takes(risk) and risk.imputed is None

    @classmethod
    def arrange(
        cls,
        layout: SampledLayout,
        weights: tuple[Array, Array],
        bounds: Array | None,  # noqa: ARG003 - no bound is known of an estimate
    ) -> SampledSide:
        """Put the weights of the observed entries in order."""
        return SampledSide(layout, weights)

    def drawn(self, seed: int) -> Self:
        """Return the backend with a sample of its own; the quadratics are those at ``X = 0``."""
        again = copy(self)
        again.seed = seed
        again._draw(*(np.zeros((size, 1)) for size in self.shape))
        return again

    def resample(self) -> Self:
        """Return the backend with another sample."""
        return self.drawn(self.seed + 1)

    def double_sample(self) -> Self | None:
        """Return the backend with twice as many tiles from the next stage on; None where all were drawn."""
        tiles = self.side.sample.tiles.columns.size
        if tiles >= self.side.rows.n_blocks * self.side.columns.n_blocks:
            return None
        again = copy(self)
        again.enlargement = 2 * self.enlargement
        return again

    def refit_control_variates(self, P: Array, Q: Array) -> Self:
        """Return the backend with quadratics fitted to the spread of ``P Q'``, and with tiles drawn for them."""
        again = copy(self)
        again._draw(P, Q)
        return again

    def _draw(self, P: Array, Q: Array) -> None:
        rows, columns = self.side.rows, self.side.columns
        draws = np.random.Generator(np.random.PCG64(self.seed))
        pairs = np.broadcast_shapes((rows.n_classes, 1, 1), (1, columns.n_classes, 1))
        left = np.stack([rows.draw(PILOT, draws) for _ in range(pairs[1])], axis=1)
        right = np.stack([columns.draw(PILOT, draws) for _ in range(pairs[0])])
        z = self.loss.scale * np.einsum("rcna,rcna->rcn", P[left], Q[right])
        controls = fit_controls(self.loss, z)
        wanted = wanted_tiles(rows, columns, self.side.n_entries, P.shape[1])
        wanted *= float(np.clip((controls.error / ERROR) ** 2, 1.0, MOST))
        chances = probabilities(rows, columns, controls.spread, self.enlargement * wanted)
        # Along the blocks of the longer side, each of which meets one at least; the others meet more.
        if rows.n_blocks >= columns.n_blocks:
            tiles = draw_tiles(rows, columns, chances, draws)
        else:
            tiles = draw_tiles(columns, rows, chances.T, draws).transposed(rows.n_blocks)
        self.side = self.side.with_sample(Sample(tiles, controls))
        flipped = Sample(tiles.transposed(columns.n_blocks), controls.transposed)
        self.other = self.other.with_sample(flipped)

    def astype(self, dtype: str) -> Self:
        """Return the same estimates in another type of arithmetic."""
        kind = np.dtype(dtype)
        again = type(self)(
            self.side.astype(kind), self.other.astype(kind), self.loss, kind, self.n_jobs
        )
        again.seed, again.enlargement = self.seed, self.enlargement
        return again

    @property
    def n_panels(self) -> int:
        """The number of runs of blocks of rows."""
        return self.side.layout.n_panels

    def panel(self, number: int, against: GramCache) -> SampledPanel:
        """Return a run of blocks of rows against a fixed Q, in the order of its blocks."""
        if not isinstance(against, SortedFactor):
            raise TypeError("the sampled backend needs its own kind of fixed factor")
        return SampledPanel(self, number, against)

    def buffers(self, height: int, width: int) -> list[Array]:
        """Return this thread's five buffers for the tiles of a block."""
        store = getattr(self._local, "store", None)
        if store is None or store.shape[1] < height * width:
            store = self._local.store = np.empty((5, height * width), dtype=self.dtype)
        return [buffer[: height * width].reshape(height, width) for buffer in store]

    def fixed(self, Q: Array) -> SortedFactor:
        """Return Q in the order of its blocks, with what panels derive from it once for a pass."""
        return SortedFactor(Q, self.dtype, self.side.columns)

    def gradient(self, P: Array, Q: Array, *, value: bool = True) -> tuple[float, Array, Array]:
        """Return the estimated risk (NaN unless ``value``) and its gradients in P and Q, in float64."""
        total, in_P = self._half(P, Q, value=value)
        _, in_Q = self.transposed._half(Q, P, value=False)
        return (total if value else float("nan")), in_P, in_Q

    def _half(self, P: Array, Q: Array, *, value: bool) -> tuple[float, Array]:
        P = np.asarray(P, dtype=self.dtype)
        in_P = np.empty(P.shape)

        def run(panel: Panel) -> float:
            assert isinstance(panel, SampledPanel)
            part, in_P[panel.rows] = panel.gradient(P[panel.rows], value=value)
            return part

        return sum(self.map_panels(run, Q), 0.0), in_P
