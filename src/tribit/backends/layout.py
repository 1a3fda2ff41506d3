"""Layouts of the observed entries without their weights: order and offsets, in one orientation.

Sorting the entries takes as long as several passes over them, and every candidate of a search has the same entries.
Code that fits the same observations many times therefore shares their layouts (:func:`share_layouts`) and other
values derived from the observations alone (:func:`make_once`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tribit.data.observations import Observations


Places = NDArray[np.integer[Any]]


class Layout(Protocol):
    """The entries at ``rows`` and ``columns`` of a matrix of some shape, in the order of a backend."""

    shape: tuple[int, int]

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None: ...


Kind = TypeVar("Kind", bound=Layout)
Made = TypeVar("Made")

#: Values derived from observations that are fitted many times; they live as long as the observations.
_shared: WeakKeyDictionary[Observations, dict[Hashable, Any]] = WeakKeyDictionary()


def share_layouts(observations: Observations) -> None:
    """Keep values derived from these observations as long as they live, for many fits."""
    _shared.setdefault(observations, {})


@contextmanager
def sharing_layouts(observations: Observations) -> Iterator[None]:
    """Keep values derived from these observations inside the context, for a few fits."""
    before = observations in _shared
    share_layouts(observations)
    try:
        yield
    finally:
        if not before:
            _shared.pop(observations, None)


def forget_layouts(observations: Observations) -> None:
    """Free the values derived from these observations; further fits derive them again."""
    if observations in _shared:
        _shared[observations] = {}


def make_once(observations: Observations, key: Hashable, make: Callable[[], Made]) -> Made:
    """Return ``make()``, a value derived from the observations; called once where these are shared."""
    known = _shared.get(observations)
    if known is None:
        return make()
    if key not in known:
        known[key] = make()
    return known[key]  # type: ignore[no-any-return]


def make_if_changed(
    observations: Observations, key: Hashable, made_of: tuple[Any, ...], make: Callable[[], Made]
) -> Made:
    """Return ``make()``, a value derived from the observations and ``made_of``; kept until one of these changes.

    Arrays and models are compared by identity: their values may be large.
    """
    known = _shared.get(observations)
    if known is None:
        return make()
    # One pair, read and written as a whole: another thread may fit the same observations with something else.
    found = known.get(key)
    if found is None or not all(
        old is new or (isinstance(old, float | str) and old == new)
        for old, new in zip(found[0], made_of, strict=True)
    ):
        found = known[key] = made_of, make()
    return found[1]


def layouts(kind: type[Kind], observations: Observations) -> tuple[Kind, Kind]:
    """Return the layouts of the matrix and of its transpose."""
    rows, columns, (d1, d2) = observations.rows, observations.columns, observations.shape
    both = getattr(kind, "both", None)
    if both is not None:
        return make_once(observations, kind, lambda: both(rows, columns, (d1, d2)))  # type: ignore[no-any-return]
    return make_once(
        observations,
        kind,
        lambda: (kind(rows, columns, (d1, d2)), kind(columns, rows, (d2, d1))),
    )


def place_type(*sizes: int) -> type[np.signedinteger[Any]]:
    """Return the type of places below these sizes: 32 bits where they fit, half the memory and its traffic."""
    return np.int32 if max(sizes) < 2**31 else np.int64


def stable_order(values: Places) -> Places:
    """Return the stable order of numbers >= 0, by digits of 16 bits: for these NumPy has a radix sort."""
    kind = place_type(values.size)
    if values.max(initial=0) >= 2**32:
        return np.argsort(values, kind="stable").astype(kind)
    order = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable").astype(kind)
    high = (values >> 16).astype(np.uint16)
    if not high.any():
        return order
    high = high[order]
    return order[np.argsort(high, kind="stable").astype(kind)]


#: Entries in a batch, about: their rows of Q stay in the caches, and threads wait for the interpreter's lock between
#: operations, so that these must not be short. A sweep over 2.2 million entries on two threads took .158 s with half of
#: it, .123 s so and .108 s with twice as many (10 factors), and .292 s, .284 s and .300 s (32 factors).
BATCH_ENTRIES = 32768
#: Largest share of padding in a batch, and the number of padded entries that costs less than one more batch.
MAX_PADDING_SHARE, FREE_PADDING = 0.08, 2048


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of like length, by their entries.

    Attributes
    ----------
    rows : array of shape (n,)
        The rows of the matrix.
    columns : array of shape (n, length)
        The column of each entry, 0 where a row is padded.
    entries : array of shape (n, length)
        Which of the observed entries it is; their number, one beyond the last, where a row is padded.
    """

    rows: Places
    columns: Places
    entries: Places


class RowLayout:
    """The observed entries of one orientation, in batches of rows of like length."""

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.shape, self.n_entries = shape, rows.size
        place = place_type(*shape, rows.size + 1)
        order = stable_order(rows).astype(place)
        counts = np.bincount(rows, minlength=shape[0])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        by_length = stable_order(counts).astype(place)
        self.batches = []
        for start, stop in cut(counts[by_length]):
            here = np.sort(by_length[start:stop])
            steps = np.arange(counts[here].max(initial=0))
            inside = steps < counts[here, None]
            entries = np.full(inside.shape, rows.size, dtype=place)
            entries[inside] = order[(offsets[here, None] + steps)[inside]]
            own = np.zeros(inside.shape, dtype=place)
            own[inside] = columns[entries[inside]]
            self.batches.append(Batch(here, own, entries))


def cut(lengths: Places) -> list[tuple[int, int]]:
    """Cut rows, sorted by length, into batches of about ``BATCH_ENTRIES`` entries with little padding."""
    cuts = []
    ends = np.concatenate([[0], np.cumsum(lengths)])
    stop = lengths.size
    while stop:
        # From the longest row down: how many rows fit, and how many cost little padding.
        longest = int(lengths[stop - 1])
        most = min(stop, max(1, BATCH_ENTRIES // max(longest, 1)), BATCH_ENTRIES)
        rows = np.arange(1, most + 1)
        held = ends[stop] - ends[stop - rows]
        padded = longest * rows - held
        fits = padded <= np.maximum(MAX_PADDING_SHARE * held, FREE_PADDING)
        # Padding grows with every shorter row: the first that costs too much ends the batch.
        count = int(np.argmin(fits)) if not fits.all() else most
        cuts.append((stop - count, stop))
        stop -= count
    return cuts
