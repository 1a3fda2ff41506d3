"""Blocks of features on a device: what :class:`tribit.model.features.Block` does to parts, for tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from tribit.backends.cuda.device import place
from tribit.backends.cuda.layout import DeviceLayout
from tribit.backends.cuda.observed import row_sums
from tribit.model.features import Activity, Block

Tensor = torch.Tensor


class DeviceBlock:
    """Features of rows, ``S = diag(scale) M + h m'``, with M a sparse matrix of values or of ones.

    Parameters
    ----------
    own, other : DeviceLayout
        The entries of M by rows and by columns.
    scale : array or None
        A number for each row, 1 for all where there is none.
    shift, means : array
        h and m.
    l2 : float
        Weight of the ridge on the parts.
    values : (array, array) or None
        The entries of M by rows and by columns; each is 1 where there are none.
    """

    def __init__(
        self,
        own: DeviceLayout,
        other: DeviceLayout,
        scale: Any,
        shift: Any,
        means: Any,
        l2: float,
        values: tuple[Any, Any] | None = None,
    ) -> None:
        self.own, self.other, self.l2 = own, other, l2
        self.width = own.shape[1]
        self._given = {"scale": scale, "shift": shift, "means": means}
        if values is not None:
            self._given |= {"by_rows": values[0], "by_columns": values[1]}
        self._cast: dict[torch.dtype, dict[str, Tensor]] = {}

    @classmethod
    def of_mask(
        cls, own: DeviceLayout, other: DeviceLayout, activity: Activity, counts: Any, l2: float
    ) -> DeviceBlock:
        """Return implicit features: each row of the mask over the root of its length."""
        scale = 1.0 / np.sqrt(np.maximum(counts, 1))
        return cls(own, other, scale, activity.shift(counts), activity.popularity, l2)

    @classmethod
    def of_block(cls, block: Block) -> DeviceBlock:
        """Return the same block on the device."""
        back = sp.csr_array(block.matrix.T)
        own, other = DeviceLayout.of_matrix(block.matrix), DeviceLayout.of_matrix(back)
        values = block.matrix.data, back.data
        ones = np.ones(block.matrix.shape[0])
        return cls(own, other, ones, block.shift, block.means, block.l2, values)

    def times(self, parts: Tensor) -> Tensor:
        """Return ``S z`` for parts of shape (n_features,) or (n_features, k)."""
        z, known = _wide(parts), self._numbers(parts.dtype)
        total = row_sums(self.own, known.get("by_rows"), z) * known["scale"][:, None]
        total += known["shift"][:, None] * (known["means"] @ z)
        return total.reshape(-1, *parts.shape[1:])

    def transposed_times(self, gradient: Tensor) -> Tensor:
        """Return ``S' g``."""
        g, known = _wide(gradient), self._numbers(gradient.dtype)
        total = row_sums(self.other, known.get("by_columns"), known["scale"][:, None] * g)
        total += known["means"][:, None] * (known["shift"] @ g)
        return total.reshape(-1, *gradient.shape[1:])

    def squares_times(self, curvatures: Tensor) -> Tensor:
        """Return ``(S * S)' c``: the curvature of each part, given that of each row."""
        c, known = _wide(curvatures), self._numbers(curvatures.dtype)
        scale, shift, means = (known[name][:, None] for name in ("scale", "shift", "means"))
        values = known.get("by_columns")
        squares = None if values is None else values**2
        total = row_sums(self.other, squares, scale**2 * c)
        total += 2.0 * means * row_sums(self.other, values, scale * shift * c)
        total += means**2 * (known["shift"] ** 2 @ c)
        return total.reshape(-1, *curvatures.shape[1:])

    def _numbers(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the numbers of the block on the device, in the type of the parts."""
        if dtype not in self._cast:
            self._cast[dtype] = {
                name: torch.as_tensor(given).to(place(), dtype)
                for name, given in self._given.items()
            }
        return self._cast[dtype]


def _wide(array: Tensor) -> Tensor:
    return array.reshape(array.shape[0], -1).contiguous()
