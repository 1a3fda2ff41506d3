"""The observed entries of one orientation on a device: sorted by row and column, rows cut into segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tribit.backends.cuda.device import place

Places = NDArray[np.integer[Any]]

#: Most entries of a segment, the work of one program of a kernel. A popular column has tens of thousands of entries: in
#: one piece it would be at work long after all others have ended; much shorter pieces cost more partial sums.
SEGMENT = 1024


class DeviceLayout:
    """Entries in the order of rows, then of columns.

    Attributes
    ----------
    shape : (int, int)
        Numbers of rows and columns.
    offsets : tensor of shape (n_rows + 1,)
        Where the entries of each row begin.
    rows, columns : tensor of shape (n_entries,)
        Row and column of each entry.
    order : tensor of shape (n_entries,)
        Which of the observed entries it is.
    starts, stops, owners : tensor of shape (n_segments,)
        Where the entries of each segment begin and end, and its row.
    segments : tensor of shape (n_rows + 1,)
        Where the segments of each row begin.
    """

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.sort(_tensor(rows), _tensor(columns), shape)

    @classmethod
    def both(
        cls, rows: Places, columns: Places, shape: tuple[int, int]
    ) -> tuple[DeviceLayout, DeviceLayout]:
        """Return the layouts of a matrix and of its transpose: the positions are copied once."""
        i, j = _tensor(rows), _tensor(columns)
        own, other = cls.__new__(cls), cls.__new__(cls)
        own.sort(i, j, shape)
        other.sort(j, i, shape[::-1])
        return own, other

    def sort(self, i: torch.Tensor, j: torch.Tensor, shape: tuple[int, int]) -> None:
        """Set the layout to that of entries in any order."""
        order = torch.argsort(i.long() * shape[1] + j, stable=True)
        self._set(i[order].contiguous(), j[order].contiguous(), shape)
        self.order = order.int() if order.numel() < 2**31 else order

    @classmethod
    def of_matrix(cls, matrix: Any) -> DeviceLayout:
        """Return the layout of the stored entries of a matrix in compressed rows, in their own order."""
        self = cls.__new__(cls)
        counts = np.diff(matrix.indptr)
        rows = np.repeat(np.arange(matrix.shape[0]), counts)
        self._set(_tensor(rows), _tensor(matrix.indices), matrix.shape)
        self.order = torch.arange(rows.size, device=place())
        return self

    def _set(self, rows: torch.Tensor, columns: torch.Tensor, shape: tuple[int, int]) -> None:
        self.shape, self.rows, self.columns = shape, rows, columns
        counts = torch.bincount(rows, minlength=shape[0])
        self.counts = counts
        self.offsets = _ends(counts)
        pieces = -(-counts // SEGMENT)
        self.segments = _ends(pieces)
        self.owners = torch.repeat_interleave(pieces)
        step = torch.arange(self.owners.numel(), device=rows.device) - self.segments[self.owners]
        self.starts = self.offsets[self.owners] + SEGMENT * step
        self.stops = torch.minimum(self.starts + SEGMENT, self.offsets[self.owners + 1])

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return int(self.columns.numel())

    def part(self, start: int, stop: int) -> tuple[slice, slice]:
        """Return the entries and the segments of a run of rows."""
        ends = [self.offsets[start], self.offsets[stop], self.segments[start], self.segments[stop]]
        a, b, c, d = torch.stack(ends).tolist()
        return slice(a, b), slice(c, d)


def _ends(counts: torch.Tensor) -> torch.Tensor:
    """Return where runs of these lengths begin, and where the last one ends."""
    return torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))


def _tensor(places: Places) -> torch.Tensor:
    """Return positions on the device, in 32 bits: half the traffic of every pass over the entries."""
    return torch.from_numpy(np.array(places, dtype=np.int32)).to(place())
