"""Parts of a bundle beside its model: what was seen, the ranker, how the table was read, a summary of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.archive.fields import FLOATS, OBJECT, SWITCH, Tensor, check_fields
from tribit.data.axis import Axes
from tribit.data.ingest import Checked
from tribit.data.observations import Observations

Tensors = dict[str, NDArray[Any]]
#: Prefix of the names of a ranker's arrays.
RANKER = "ranker:"
#: Entries that were seen, row by row: how many each row has, their columns and their labels.
SEEN = {
    "seen:counts": Tensor(("I32",), ("rows",)),
    "seen:columns": Tensor(("I32",), ("seen entries",)),
    "seen:labels": Tensor(("I8",), ("seen entries",)),
}
#: Fields of a bundle in the header.
BUNDLE = {
    "reading": OBJECT.or_none(),
    "summary": OBJECT.or_none(),
    "seen": SWITCH,
    "ranker": SWITCH,
}


@dataclass(frozen=True, eq=False)
class Parts:
    """The content of a bundle beside its model; None for what was left out.

    Attributes
    ----------
    seen : Observations or None
        The entries that the model was fitted on, in its rows and columns.
    ranker : dict of arrays or None
        Those of :meth:`tribit.ranking.CandidateRanker.arrays`.
    reading : dict or None
        The rules by which the table was read, as JSON has them.
    summary : dict or None
        Facts about the data and the fit, as JSON has them.
    """

    seen: Observations | None = None
    ranker: Mapping[str, NDArray[Any]] | None = None
    reading: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None

    def described(self) -> dict[str, Any]:
        """Return what the header says of the parts."""
        return {
            "reading": self.reading,
            "summary": self.summary,
            "seen": self.seen is not None,
            "ranker": self.ranker is not None,
        }

    def tensors(self) -> Tensors:
        """Return the arrays of the parts as a file holds them."""
        found: Tensors = {}
        if self.seen is not None:
            counts = self.seen.counts[0]
            arrays = counts.astype("<i4"), self.seen.columns.astype("<i4"), self.seen.labels
            found |= dict(zip(SEEN, arrays, strict=True))
        for name, array in (self.ranker or {}).items():
            found[RANKER + name] = np.array(array, dtype=np.float64, order="C")
        return found


def check_bundle(bundle: Any) -> None:
    """Refuse a description of parts with a field that is wrong, missing or unknown."""
    if bundle is not None:
        check_fields(bundle, BUNDLE)
        if bundle["ranker"] and not bundle["seen"]:
            raise ValueError("a ranker needs the entries that were seen")


def part_tensors(
    bundle: Mapping[str, Any] | None, described: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, Tensor]:
    """Return the tensors that a bundle must hold; a ranker checks the shapes of its own."""
    needed: dict[str, Tensor] = {}
    if bundle is None:
        return needed
    if bundle["seen"]:
        needed |= SEEN
    if bundle["ranker"]:
        for name, (_, shape) in described.items():
            if name.startswith(RANKER):
                sizes = tuple(f"{name}, dimension {n}" for n in range(len(shape)))
                needed[name] = Tensor(FLOATS, sizes)
    return needed


def read_parts(bundle: Mapping[str, Any] | None, tensors: Tensors, axes: Axes) -> Parts:
    """Return the parts; a ValueError where the arrays do not fit the model."""
    if bundle is None:
        return Parts()
    ranker = {
        name.removeprefix(RANKER): array
        for name, array in tensors.items()
        if name.startswith(RANKER)
    }
    return Parts(
        _seen([tensors[name] for name in SEEN], axes) if bundle["seen"] else None,
        ranker if bundle["ranker"] else None,
        bundle["reading"],
        bundle["summary"],
    )


def _seen(arrays: list[NDArray[Any]], axes: Axes) -> Observations:
    counts, columns, labels = arrays
    if counts.min(initial=0) < 0 or int(counts.sum(dtype=np.int64)) != columns.size:
        raise ValueError("seen:counts does not count the entries that were seen")
    rows = np.repeat(np.arange(counts.size), counts)
    columns = columns.astype(np.int64)
    if columns.size and not 0 <= columns.min() <= columns.max() < axes.columns.size:
        raise ValueError("seen:columns holds a column that the model does not have")
    if (np.diff(rows * axes.columns.size + columns) <= 0).any():
        raise ValueError("seen:columns must rise within each row")
    if not np.isin(labels, (1, -1)).all():
        raise ValueError("seen:labels holds other labels than 1 and -1")
    if not labels.size:
        raise ValueError("seen:labels is empty")
    return Observations.from_checked(Checked(rows, columns, labels.astype(np.int8), axes))
