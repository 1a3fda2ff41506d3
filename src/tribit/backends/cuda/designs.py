"""Blocks of features on a device: :class:`tribit.model.design.Block` for tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch

from tribit.backends.cuda.device import place
from tribit.backends.cuda.layout import DeviceLayout
from tribit.backends.cuda.observed import row_sums
from tribit.model.design import Block
from tribit.model.features import Activity

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """Features of rows, ``S = diag(scale) M + h m'``, with M a sparse matrix of values or of ones.

    Attributes
    ----------
    own, other : DeviceLayout
        The entries of M by rows and by columns.
    numbers : dict of arrays
        ``scale``, a number for each row; ``shift`` and ``means``, h and m; ``by_rows`` and ``by_columns``, the entries
        of M in both orders, each of which is 1 where there are none.
    l2 : float
        Weight of the ridge on the parts.
    kept : dict
        The numbers on the device, by their type.
    """

    own: DeviceLayout
    other: DeviceLayout
    numbers: dict[str, Any]
    l2: float
    kept: dict[torch.dtype, dict[str, Tensor]] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.own.shape[1]

    @classmethod
    def of_mask(
        cls, own: DeviceLayout, other: DeviceLayout, activity: Activity, counts: Any, l2: float
    ) -> DeviceBlock:
        """Return implicit features: each row of the mask over the root of its length."""
        scale = 1.0 / np.sqrt(np.maximum(counts, 1))
        numbers = {"scale": scale, "shift": activity.shift(counts), "means": activity.popularity}
        return cls(own, other, numbers, l2)

    @classmethod
    def of_block(cls, block: Block) -> DeviceBlock:
        """Return the same block on the device."""
        back = sp.csr_array(block.matrix.T)
        own, other = DeviceLayout.of_matrix(block.matrix), DeviceLayout.of_matrix(back)
        numbers = {"scale": np.ones(own.shape[0]), "shift": block.shift, "means": block.means}
        numbers |= {"by_rows": block.matrix.data, "by_columns": back.data}
        return cls(own, other, numbers, block.l2)

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
        if dtype not in self.kept:
            self.kept[dtype] = {
                name: torch.as_tensor(given).to(place(), dtype)
                for name, given in self.numbers.items()
            }
        return self.kept[dtype]


def _wide(array: Tensor) -> Tensor:
    return array.reshape(array.shape[0], -1).contiguous()
