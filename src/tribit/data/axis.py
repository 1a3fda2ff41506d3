"""The rows and columns of a matrix: their number and ids, positions of ids, further rows, and columns of a frame."""

from __future__ import annotations

import difflib
import operator
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from narwhals.exceptions import DuplicateError

from tribit.display import Summarised
from tribit.errors import InvalidInputError, InvalidTypeError, UnknownIdError, listed, quoted

if TYPE_CHECKING:
    from tribit.data.entries import Entries

AnyArray: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]
Where: TypeAlias = Callable[[int], str]

#: The most entries a matrix may have.
MAX_ENTRIES = int(np.iinfo(np.int64).max)
#: The most ids among which one near an unknown id is sought; 20,000 take a tenth of a second.
MAX_COMPARED_IDS = 20_000
#: Least similarity, from 0 to 1, at which an id is suggested for an unknown one.
MIN_SIMILARITY = 0.6


def first_true(mask: npt.NDArray[np.bool_]) -> int | None:
    """Return the first position where ``mask`` holds, for an error to name."""
    return int(np.argmax(mask)) if mask.any() else None


def factorize(ids: AnyArray, where: Where) -> tuple[Positions, AnyArray]:
    """Return each id's number, and the distinct ids in order of first appearance."""
    missing = "{}: the id is missing; give every entry a row and a column id."
    if ids.dtype.kind in "biufmM":
        if (position := first_true(np.not_equal(ids, ids))) is not None:  # NaN, NaT
            raise InvalidInputError(missing.format(where(position)))
        names, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return np.argsort(order)[codes], names[order]
    try:
        distinct = dict.fromkeys(ids.tolist())
        if not any(name is None or operator.ne(name, name) for name in distinct):
            numbers = {name: number for number, name in enumerate(distinct)}
            codes = np.fromiter(map(numbers.__getitem__, ids.tolist()), np.int64, ids.size)
            return codes, np.fromiter(distinct, dtype=object, count=len(distinct))
    except TypeError:
        pass  # found below, one by one, with its position
    numbers = {}
    codes = np.empty(ids.size, dtype=np.int64)
    for position, name in enumerate(ids.tolist()):
        try:
            if name is None or operator.ne(name, name):  # only NaN and its like differ
                raise InvalidInputError(missing.format(where(position)))
            codes[position] = numbers.setdefault(name, len(numbers))
        except TypeError as error:
            raise InvalidTypeError(
                f"{where(position)}: an object of type {type(name).__name__} cannot be an id; "
                "pass text or numbers."
            ) from error
    return codes, np.fromiter(numbers, dtype=object, count=len(numbers))


def check_ids(ids: AnyArray, name: str) -> AnyArray:
    """Return distinct ids with NumPy's numbers as Python's; refuse those that no file holds or no list asks for.

    These are dates, booleans (``True == 1``), whatever is neither text nor a number, and texts that differ in their
    Unicode form alone.
    """
    if ids.dtype.kind in "mM" or any(isinstance(each, date | timedelta) for each in _objects(ids)):
        raise InvalidTypeError(
            f"{name} holds dates or times as ids; pass them as text, such as frame[column].astype(str)."
        )
    if any(isinstance(each, np.generic) for each in _objects(ids)):
        ids = ids.copy()
        ids[:] = [each.item() if isinstance(each, np.generic) else each for each in ids.tolist()]
    kinds = {type(each) for each in (_objects(ids) or ids[:1].tolist())}
    if odd := [each for each in kinds if each is bool or not issubclass(each, str | int | float)]:
        raise InvalidTypeError(_odd_ids(name, odd[0]))
    texts = [each for each in _objects(ids) if isinstance(each, str) and not each.isascii()]
    forms: dict[str, str] = {}
    for text in texts:
        same = forms.setdefault(unicodedata.normalize("NFC", text), text)
        if same != text:
            raise InvalidInputError(
                f"{name} holds the ids {same!a} and {text!a}, which differ in their Unicode form alone; give "
                "both one form, with unicodedata.normalize('NFC', id)."
            )
    return ids


def check_no_booleans(ids: AnyArray, distinct: AnyArray, name: str) -> None:
    """Refuse booleans among ids, where they are hidden by the ids 1 and 0, to which they are equal."""
    if any(not isinstance(each, str) and each in (0, 1) for each in _objects(distinct)) and (
        {bool, np.bool_} & set(map(type, _objects(ids)))
    ):
        raise InvalidTypeError(_odd_ids(name, bool))


def _odd_ids(name: str, kind: type) -> str:
    held = "booleans" if kind is bool else f"a value of type {kind.__name__}"
    return f"{name} holds {held} as ids; pass text or numbers."


def _objects(ids: AnyArray) -> list[Any]:
    return ids.tolist() if ids.dtype.kind in "OU" else []


def distinct_ids(ids: object, name: str) -> AnyArray:
    """Return a copy of the ids as an array, each checked to appear once."""
    array = _id_array(ids, name)
    codes, distinct = factorize(array, lambda p: f"{name}, position {p}")
    check_no_booleans(array, distinct, name)
    if (again := first_true(codes != np.arange(codes.size))) is not None:
        # Up to the first repeat every id was new, so its number is its position.
        raise InvalidInputError(
            f"{name} holds {quoted_id(array, again)} at positions {codes[again]} and {again}; "
            "give each its own id."
        )
    return check_ids(array, name).copy()


def check_positions(positions: AnyArray, size: int, name: str) -> None:
    """Raise an error for positions that are not integers in 0, ..., size - 1."""
    if positions.size and positions.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"Each {name} must be an integer position, not {positions.dtype}; for other ids use "
            "Observations.from_frame, for a mask numpy.flatnonzero."
        )
    if (position := first_true((positions < 0) | (positions >= size))) is not None:
        raise InvalidInputError(
            f"position {position}: the {name} {positions[position]} is not between 0 and "
            f"{size - 1}; count from 0 and stay below {size}."
        )


def quoted_id(ids: AnyArray | None, position: int | np.int64) -> str:
    """Return the id at ``position``, or without ids the position, for an error to name."""
    # Through a list, which turns NumPy's numbers into Python's: 7, not np.int64(7).
    return str(position) if ids is None else quoted(ids[position : position + 1].tolist()[0])


@dataclass(frozen=True, eq=False, repr=False)
class Axis(Summarised):
    """The rows or the columns of a matrix: how many there are, and the user's distinct ids of them if there are any."""

    name: str
    size: int
    ids: AnyArray | None = None

    def facts(self) -> dict[str, str]:
        """Return size and first ids."""
        ids: Any = self.ids
        shown = "none" if ids is None else listed(ids)
        return {"name": self.name, "size": f"{self.size:,}", "ids": shown}

    @classmethod
    def of(cls, name: str, positions: AnyArray, ids: object, size: int | None) -> Axis:
        """Check positions, ids and size against each other; without a size, the ids or the positions imply it."""
        known = None if ids is None else distinct_ids(ids, f"{name}_ids")
        if size is None:
            check_positions(positions, MAX_ENTRIES, name)  # before the largest is made a size
            size = int(positions.max()) + 1 if known is None else known.size
        if known is not None and known.size != size:
            raise InvalidInputError(
                f"{name}_ids has {known.size} ids for {size} {name}s; pass one id per {name}."
            )
        check_positions(positions, size, name)
        return cls(name, size, known)

    def find(self, wanted: object) -> Positions:
        """Return the positions of a list of ids or, without ids, check that they are positions."""
        name = f"The list of {self.name}s"
        sought = _id_array(wanted, name)
        if self.ids is None:
            check_positions(sought, self.size, self.name)
            return sought.astype(np.int64)
        if sought.dtype.kind == "b":
            raise InvalidTypeError(
                f"{name} holds booleans, which are no ids; pass ids, not a mask."
            )
        places = _places(self.ids, sought, name)
        if (position := first_true(places < 0)) is not None:
            near = self.suggestion(sought[position])
            raise UnknownIdError(
                f"The {self.name} id {quoted_id(sought, position)} at position {position} of the list is unknown; "
                f"{near or f'pass ids from the data, such as {quoted_id(self.ids, 0)}.'}"
            )
        return places

    def suggestion(self, unknown: object) -> str:
        """Return "did you mean ...?" for an unknown id; "" if no known id is near."""
        place = self._nearest(str(unknown))
        return "" if place is None else f"did you mean {quoted_id(self.ids, place)}?"

    def _nearest(self, text: str) -> int | None:
        """Return the position of the id whose text is nearest, among those with the same number in it.

        Ids are often a word and a number: another number is another id, and no slip.
        """
        known, number = self.by_text, _number_in(text)
        if text in known:  # of another type
            return known[text]
        if number in known:
            return known[number]
        if self.size > MAX_COMPARED_IDS:
            return None
        near = {each.casefold(): each for each in known if _number_in(each) == number}
        found = difflib.get_close_matches(text.strip().casefold(), near, n=1, cutoff=MIN_SIMILARITY)
        return known[near[found[0]]] if found else None

    def match(self, theirs: Axis, source: str, advice: str) -> Positions:
        """Return the position here of each row or column there: by id where there are ids here, -1 for an unknown one.

        ``source`` names what has the other axis, with its verb; ``advice`` names the entries to pass instead.
        """
        if self.ids is None:
            if theirs.size != self.size:
                start = f"T{source[1:]}" if source.startswith("the ") else source
                raise InvalidInputError(
                    f"{start} {theirs.size} {self.name}s and the model {self.size}: without ids they are matched by "
                    f"position, so {advice}."
                )
            return np.arange(self.size)
        if theirs.ids is self.ids:
            return np.arange(self.size)
        if theirs.ids is None:
            raise InvalidInputError(
                f"The model was fitted on {self.name} ids but {source} none: read the entries with the same ids "
                "(Observations.from_frame, or row_ids= and column_ids=)."
            )
        return _places(self.ids, theirs.ids, source)

    def names(self, positions: Positions) -> AnyArray:
        """Return the ids at the positions, None at -1; without ids the positions."""
        if self.ids is None:
            return positions
        names = self.ids[positions]
        if (positions < 0).any():
            names = names.astype(object)
            names[positions < 0] = None
        return names

    @cached_property
    def by_text(self) -> dict[str, int]:
        """Position of each id as a file has it, in text."""
        known = range(self.size) if self.ids is None else self.ids.tolist()
        return {str(key): place for place, key in enumerate(known)}


class Axes(NamedTuple):
    """The rows and the columns of a matrix."""

    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, shape: tuple[int, int], row_ids: Any = None, column_ids: Any = None) -> Axes:
        """Return the axes of a shape and ids that were checked."""
        return cls(Axis("row", shape[0], row_ids), Axis("column", shape[1], column_ids))

    @classmethod
    def of_model(cls, model: Any) -> Axes:
        """Return those of a fitted model or of anything else that has a shape and ids, such as a ranker."""
        return cls.of(model.shape_, model.row_ids_, model.column_ids_)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.size, self.columns.size

    def transpose(self) -> Axes:
        """Return the axes with rows and columns exchanged."""
        return Axes.of(self.shape[::-1], self.columns.ids, self.rows.ids)

    def pairs(self, rows: object, columns: object) -> tuple[Positions, Positions]:
        """Return the positions of pairs given by id or position: lists, or one list and a single value."""
        return broadcast(self.rows.find(as_list(rows)), self.columns.find(as_list(columns)))

    def cells(self, rows: object, columns: object) -> tuple[Positions, Positions]:
        """Return the positions of cells whose ids are arrays of any shape, broadcast as NumPy does."""
        sides = []
        for axis, ids in zip(self, (rows, columns), strict=True):
            if getattr(ids, "ndim", 1) > 1:
                grid = np.asarray(ids)
                sides.append(axis.find(grid.ravel()).reshape(grid.shape))
            else:
                sides.append(axis.find(as_list(ids)))
        return broadcast(*sides)

    def places(
        self, entries: Entries, source: str, advice: str = "pass entries of the same matrix"
    ) -> tuple[Positions, Positions]:
        """Return the positions here of entries there, as in :meth:`Axis.match`."""
        rows = self.rows.match(entries.axes.rows, source, advice)
        columns = self.columns.match(entries.axes.columns, source, advice)
        return rows[entries.rows], columns[entries.columns]

    def mask(self, entries: Entries, source: str) -> sp.csr_array:
        """Return which entries here are there; those with an id that is not here are left out."""
        rows, columns = self.places(entries, source)
        here = (rows >= 0) & (columns >= 0)
        ones = np.ones(np.count_nonzero(here), dtype=bool)
        return sp.csr_array((ones, (rows[here], columns[here])), shape=self.shape)

    def within(self, other: Axes, name: str) -> tuple[Positions, Positions]:
        """Return where the other has each row and column that is here; it must know them all."""
        sides = []
        for ours, theirs in zip(self, other, strict=True):
            places = theirs.match(
                ours, "the model that recommends has", "pass entries of the same matrix"
            )
            if (lost := first_true(places < 0)) is not None:
                raise InvalidInputError(
                    f"The {name} does not know the {ours.name} {quoted_id(ours.ids, lost)} of the model: fit both "
                    "on the same rows and columns."
                )
            sides.append(places)
        return sides[0], sides[1]


class HasAxes:
    """An object with rows and columns: their number and the user's ids follow from ``axes_``."""

    axes_: Axes

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes_.shape

    @property
    def row_ids_(self) -> AnyArray | None:
        """The user's ids of the rows, if there are any."""
        return self.axes_.rows.ids

    @property
    def column_ids_(self) -> AnyArray | None:
        """The user's ids of the columns, if there are any."""
        return self.axes_.columns.ids


def _number_in(text: str) -> str:
    """Return the digits of a text, without zeros before them."""
    return re.sub(r"\D", "", text).lstrip("0")


def broadcast(rows: AnyArray, columns: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return rows and columns with the same shape, as NumPy broadcasts arrays."""
    try:
        found = np.broadcast_arrays(rows, columns)
    except ValueError:
        sizes = [" x ".join(map(str, each.shape)) for each in (rows, columns)]
        raise InvalidInputError(
            f"rows and columns must have the same length, or one of them a single id; got {' and '.join(sizes)}."
        ) from None
    return found[0], found[1]


def as_list(ids: Any) -> Any:
    """Return a single id as a list of one."""
    # Not np.ndim, which cannot make an array of [(1, 2), "a"].
    if getattr(ids, "ndim", 1) == 0:
        return np.reshape(ids, 1)
    return [ids] if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__") else ids


def _places(ids: AnyArray, sought: AnyArray, name: str) -> Positions:
    """Return the position of each sought id among distinct ones, -1 for none."""
    if sought.dtype.kind != ids.dtype.kind:
        # As objects, or NumPy would make 1 and "1" the same id.
        sought, ids = sought.astype(object), ids.astype(object)
    # The known ids are distinct and come first, so their numbers are their positions.
    n = ids.size
    codes, _ = factorize(np.concatenate((ids, sought)), lambda p: f"{name}, position {p - n}")
    return np.where(codes[n:] < n, codes[n:], -1)


def _id_array(ids: object, name: str) -> AnyArray:
    if hasattr(ids, "__array__"):
        array = np.asarray(ids)
    elif isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        raise InvalidTypeError(f"{name} is of type {type(ids).__name__}; pass a list of ids.")
    else:
        # One by one: np.asarray makes strings of [1, "a"] and a matrix of a list of tuples.
        array = np.fromiter(ids, dtype=object)
        # NumPy's numbers as Python's, so that list(np.arange(3)) is a list of integers.
        items = [item.item() if isinstance(item, np.generic) else item for item in array.tolist()]
        array = np.fromiter(items, dtype=object, count=len(items))
        if {type(item) for item in items} in ({int}, {bool}, {float}):
            array = np.asarray(items)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} has shape {array.shape}; pass a one-dimensional list.")
    return array


def check_new(ours: Axis, new: Axis) -> None:
    """Raise an error for rows that the model knows already, and for rows without ids beside rows with them."""
    if (ours.ids is None) != (new.ids is None):
        raise InvalidInputError(
            f"The model's {ours.name}s have {'no ids' if ours.ids is None else 'ids'} and the new ones have "
            f"{'some' if ours.ids is None else 'none'}: give both of the same kind."
        )
    if ours.ids is None:
        return
    places = ours.match(new, "the entries have", "give new ids")
    if (again := first_true(places >= 0)) is not None:
        raise InvalidInputError(
            f"The model knows the {ours.name} {quoted_id(new.ids, again)} already: add entries to it with update."
        )


def longer(axis: Axis, more: Axis) -> Axis:
    """Return an axis with further rows; ids are objects where their types differ: NumPy would make 1 and "1" one id."""
    size, ids, new = axis.size + more.size, axis.ids, more.ids
    if ids is None or new is None:
        return Axis(axis.name, size, ids if not more.size else None)
    if ids.dtype.kind != new.dtype.kind:
        ids, new = ids.astype(object), new.astype(object)
    return Axis(axis.name, size, np.concatenate([ids, new]))


def eager_frame(frame: object) -> nw.DataFrame[Any]:
    """Return the frame as narwhals sees it; a lazy one is refused."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InvalidTypeError(
            f"frame is of type {type(frame).__name__}; pass a pandas, polars or pyarrow data "
            "frame, and collect a lazy one first."
        ) from error
    except DuplicateError as error:
        raise InvalidInputError("Two columns of the frame share a name; rename one.") from error


def row_of_frame(position: int) -> str:
    """Say where a row stands in the frame, for an error to name."""
    return f"row {position} of the frame"


def frame_column(
    frame: nw.DataFrame[Any], name: str, role: str, where: Callable[[int], str] = row_of_frame
) -> AnyArray:
    """Return a column without missing values as an array; ``role`` is the keyword that named it."""
    if name not in frame.columns:
        raise InvalidInputError(
            f"The frame has no column {quoted(name)}, given as {role}=; "
            f"choose one of its columns: {listed(frame.columns)}."
        )
    series = frame.get_column(name)
    position = first_true(series.is_null().to_numpy())
    if position is not None:
        raise InvalidInputError(
            f"{where(position)}: the {role} in column {quoted(name)} is missing; "
            "drop the row or fill it in."
        )
    values: AnyArray = series.to_numpy()
    if values.ndim != 1:
        raise InvalidTypeError(
            f"Column {quoted(name)}, given as {role}=, holds lists; choose one with a value per row."
        )
    return values


def _column_names(matrix: object) -> AnyArray | None:
    """Return the names of the columns of a frame; None for any other table, and where they only count."""
    frame = nw.from_native(matrix, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    names = np.array([*frame.columns, ""], dtype=object)[:-1]
    if all(name.removeprefix("column_") == str(place) for place, name in enumerate(names)):
        return None
    return distinct_ids(names, "The list of columns")


def frame_labels(matrix: object) -> tuple[AnyArray | None, AnyArray | None]:
    """Return the index and the columns of a pandas frame as ids: none where both only count from 0.

    Other frames have names of columns alone; those that a frame makes itself, as of an array, are none.
    """
    if not (hasattr(matrix, "index") and hasattr(matrix, "columns") and hasattr(matrix, "iloc")):
        return None, _column_names(matrix)
    labels = np.asarray(matrix.index), np.asarray(matrix.columns)
    if all(np.array_equal(label, np.arange(label.size)) for label in labels):
        return None, None
    return distinct_ids(labels[0], "The index"), distinct_ids(labels[1], "The list of columns")
