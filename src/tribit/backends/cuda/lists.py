"""The best columns of many rows on a device: exact scores in float64, a block of rows at a time."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from tribit.backends.cuda.device import place

Tensor: TypeAlias = torch.Tensor
#: Scores in memory at once: a gigabyte in float64.
BLOCK = 2**27


def best_columns(
    P: NDArray[Any], Q: NDArray[Any], n: int, seen: sp.csr_array | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the positions of the ``n`` largest entries of each row of ``P Q'``, and these; stored cells are left out.

    Largest first, equal ones in the order of their columns; -1 and ``-inf`` where columns ran out.
    """
    left, right = (
        torch.from_numpy(np.ascontiguousarray(each, dtype=np.float64)).to(place())
        for each in (P, Q)
    )
    out = None if seen is None else _Cells(seen)
    positions = np.empty((P.shape[0], n), dtype=np.int64)
    scores = np.empty((P.shape[0], n))
    step = max(1, BLOCK // max(Q.shape[0], 1))
    for start in range(0, P.shape[0], step):
        here = slice(start, min(start + step, P.shape[0]))
        x = left[here] @ right.T
        if out is not None:
            out.leave_out(x, here.start, here.stop)
        columns, values = _best(x, n)
        columns[values == -torch.inf] = -1
        positions[here], scores[here] = columns.cpu().numpy(), values.cpu().numpy()
    return positions, scores


def _best(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return columns and values of the n largest entries of each row, equal ones in the order of their columns."""
    wide = min(n + 1, x.shape[1])
    values, columns = torch.topk(x, wide, dim=1)
    # By columns first: the order by values then keeps it among equals.
    columns, by_column = torch.sort(columns, dim=1)
    values, order = torch.sort(
        torch.gather(values, 1, by_column), dim=1, descending=True, stable=True
    )
    columns = torch.gather(columns, 1, order)
    if wide > n:
        # Where the last that is shown equals the first that is not, which of them was found is chance.
        tied = (values[:, n - 1] == values[:, n]) & (values[:, n] > -torch.inf)
        odd = torch.nonzero(tied)[:, 0]
        if odd.numel():
            whole, places = torch.sort(x[odd], dim=1, descending=True, stable=True)
            values[odd, :n], columns[odd, :n] = whole[:, :n], places[:, :n]
    return columns[:, :n].clone(), values[:, :n]


class _Cells:
    """Cells that are left out, by rows."""

    def __init__(self, seen: sp.csr_array) -> None:
        self.ends = seen.indptr
        self.columns = torch.from_numpy(seen.indices.astype(np.int64)).to(place())
        counts = torch.from_numpy(np.diff(seen.indptr).astype(np.int64)).to(place())
        self.rows = torch.repeat_interleave(counts)

    def leave_out(self, x: Tensor, start: int, stop: int) -> None:
        """Put ``-inf`` at the cells of a run of rows."""
        here = slice(int(self.ends[start]), int(self.ends[stop]))
        x[self.rows[here] - start, self.columns[here]] = -torch.inf
