"""Times of observed entries: how they are read, splits by time, and periods.

A time is a ``numpy.datetime64`` in microseconds, in UTC; without a time zone it is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from tribit.checks import check_choice, check_count, is_number, is_whole
from tribit.data.axis import AnyArray, Positions, Where, first_true
from tribit.data.labels import TableCells, TextColumn, as_number
from tribit.errors import InvalidInputError, InvalidTypeError, either, parameter, quoted
from tribit.randomness import RandomState, count_held_out, generator, held_out_mask

Times: TypeAlias = "npt.NDArray[np.datetime64]"
Calendar: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
#: How to choose test entries.
SplitBy: TypeAlias = Literal["random", "time"]
#: The type of times.
TIME = np.dtype("datetime64[us]")
#: Numbers of this magnitude are milliseconds: as seconds they would be in the year 5138.
MILLISECONDS_FROM = 1e11
#: Largest magnitude of milliseconds, also in the year 5138.
MAX_NUMBER = 1e14
#: The largest number of a column must reach this magnitude, 1973 in seconds: years, days and 19970920 do not.
MIN_NUMBER = 1e8
MICROSECONDS = {"seconds": 1e6, "milliseconds": 1e3}
#: Seconds of a day.
DAY = np.timedelta64(1, "D")
FORMS = (
    "an ISO date such as 1997-09-20 or 1997-09-20T22:05:49, or seconds or milliseconds since 1970"
)


class ReadTimes(NamedTuple):
    """Times of a column, and the unit that was guessed where they are numbers."""

    times: Times
    unit: str | None


def check_times(times: Any, n: int, where: Where) -> Times:
    """Return one time for each of n entries, from datetimes, ISO dates or numbers since 1970.

    Examples
    --------
    >>> from tribit.data.times import check_times
    >>> check_times([874724710, 893286638], 2, "entry {}".format)
    array(['1997-09-20T03:05:10.000000', '1998-04-22T23:10:38.000000'],
          dtype='datetime64[us]')
    """
    if hasattr(times, "dtype") and not isinstance(times, np.ndarray | np.generic):
        times = datetimes_of_series(times)
    given = np.asarray(times)
    if given.shape != (n,):
        raise InvalidInputError(
            f"times has the shape {given.shape} for {n} entries; pass one time for each."
        )
    return read_times(given, where).times


def datetimes_of_series(series: Any) -> AnyArray:
    """Return a column of a data frame as an array: datetimes in UTC, and any other values as they are."""
    import narwhals as nw  # noqa: PLC0415 - arrays need no frames

    values = nw.from_native(series, series_only=True, allow_series=True, pass_through=True)
    if not isinstance(values, nw.Series):
        return np.asarray(values)
    if values.dtype == nw.Date:
        values = values.cast(nw.Datetime("us"))
    if values.dtype != nw.Datetime:
        return cast("AnyArray", values.to_numpy())
    missing = values.is_null().to_numpy()
    microseconds = values.dt.timestamp("us").fill_null(0).to_numpy().astype(np.int64)
    return np.where(missing, np.datetime64("NaT"), microseconds.astype(TIME))


def times_of_cells(cells: TableCells) -> tuple[TableCells, Times | None]:
    """Return the times of a table, checked, and the cells with a note on the unit of numbers; None without times."""
    given = cells.times
    if given is None:
        return cells, None
    column = cells.time_column
    if isinstance(given, TextColumn):

        def where(distinct: int) -> str:
            return cells.where(int(np.argmax(given.codes == distinct)))

        found, unit = read_times(given.distinct, where, column)
        times = found[given.codes]
    else:
        times, unit = read_times(given, cells.where, column)
    if unit is None:
        return cells, times
    within = "" if column is None else f" in column {quoted(column)}"
    note = (
        f"{cells.source}: the times{within} are {unit} since 1970 (guessed): {time_range(times)}."
    )
    return cells.with_note(note), times


def read_times(values: AnyArray, where: Where, column: str | None = None) -> ReadTimes:
    """Return the times of an array of datetimes, of ISO dates, or of numbers since 1970."""
    if values.dtype.kind == "M":
        return ReadTimes(_without_missing(values.astype(TIME), values, where, column), None)
    if values.dtype.kind not in "iufOUT":
        raise InvalidTypeError(f"Times must be {FORMS}; got the type {values.dtype}.")
    numbers = _numbers(values)
    if numbers is not None:
        return _times_of_numbers(numbers, values, where, column)
    found = np.full(values.shape, np.datetime64("NaT"), dtype=TIME)
    for place, value in enumerate(values.tolist()):
        moment = _moment(value)
        if moment is None:
            raise _no_time(value, where(place), column)
        found[place] = moment
    return ReadTimes(_without_missing(found, values, where, column), None)


def _numbers(values: AnyArray) -> npt.NDArray[np.float64] | None:
    """Return the values as numbers; None if one is no number."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    found = [
        as_number(each, ".") if isinstance(each, str) else float(each) if is_number(each) else None
        for each in values.tolist()
    ]
    return None if None in found else np.array(found, dtype=np.float64)


def _times_of_numbers(
    numbers: npt.NDArray[np.float64], values: AnyArray, where: Where, column: str | None
) -> ReadTimes:
    if (wrong := first_true(~(np.abs(numbers) < MAX_NUMBER))) is not None:
        raise _no_time(values[wrong], where(wrong), column)
    largest = int(np.argmax(np.abs(numbers))) if numbers.size else None
    if largest is not None and abs(numbers[largest]) < MIN_NUMBER:
        raise _no_time(values[largest], where(largest), column)
    early = largest is None or abs(numbers[largest]) < MILLISECONDS_FROM
    unit = "seconds" if early else "milliseconds"
    return ReadTimes(np.round(numbers * MICROSECONDS[unit]).astype(np.int64).astype(TIME), unit)


def _moment(value: Any) -> datetime | None:
    """Return a date or a datetime, of an object or of ISO text, in UTC and without time zone; None for neither."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    # A missing time of pandas is a datetime that is not equal to itself.
    if not isinstance(value, datetime) or value != value:  # noqa: PLR0124
        return None
    try:
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return None


def _without_missing(times: Times, values: AnyArray, where: Where, column: str | None) -> Times:
    if (wrong := first_true(np.isnat(times))) is not None:
        raise _no_time(values[wrong], where(wrong), column)
    return times


def _no_time(value: Any, where: str, column: str | None) -> InvalidInputError:
    within = "" if column is None else f" in column {quoted(column)}"
    shown = value if isinstance(value, str) else str(value)
    return InvalidInputError(
        f"{where}: the time {quoted(shown)}{within} is not {FORMS}; correct it, or leave out {parameter('time')}."
    )


def times_at(times: Times | None, chosen: AnyArray | slice) -> Times | None:
    """Return the times of some entries; None without times."""
    return None if times is None else times[chosen]


def time_range(times: Times) -> str:
    """Return the first and the last day as text.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.data.times import time_range
    >>> time_range(np.array(["1998-04-22T23:10", "1997-09-20"], dtype="datetime64[us]"))
    'from 1997-09-20 to 1998-04-22'
    """
    first, last = (np.datetime_as_string(each, unit="D") for each in (times.min(), times.max()))
    return f"from {first} to {last}"


def days_before(times: Times, latest: np.datetime64) -> npt.NDArray[np.float64]:
    """Return the age of each time in days."""
    return np.asarray((latest - times) / DAY)


def require_times(times: Times | None, reason: str) -> Times:
    """Return the times of some entries, or raise an error with the reason why they are needed."""
    if times is None:
        raise InvalidInputError(
            f"{reason}, and the entries have none; pass {parameter('time')}, the name of their column"
            f"{either(', or Observations with times', '')}."
        )
    return times


def split_mask(
    rows: Positions,
    times: Times | None,
    test: float | int,
    random_state: RandomState,
    by: SplitBy,
    last: int | None,
) -> npt.NDArray[np.bool_]:
    """Return the mask of test entries; see :meth:`tribit.Observations.split`."""
    if check_choice("by", by, get_args(SplitBy)) == "random":
        if last is not None:
            raise InvalidInputError(
                f"{parameter('last', last)} needs {parameter('by', 'time')}, as last entries are those of the latest "
                "times."
            )
        return held_out_mask(rows.size, test, random_state)
    moments = require_times(times, f"{parameter('by', by)} splits by the time of each entry")
    if last is None:
        return latest_mask(moments, count_held_out(rows.size, test))
    return last_of_groups(rows, moments, last, generator(random_state))


def latest_mask(times: Times, n_latest: int) -> npt.NDArray[np.bool_]:
    """Return the mask of about ``n_latest`` latest times: equal times are all in it, or none is.

    Of the two ways to treat the times that are equal to the n-th latest one, it is the one that is nearer to the number
    and leaves times on both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.data.times import latest_mask
    >>> latest_mask(np.array([1, 2, 2, 3, 3, 3], dtype="datetime64[us]"), 4).sum()
    np.int64(3)
    """
    bound = np.sort(times)[times.size - n_latest]
    masks = [
        mask for mask in (times > bound, times >= bound) if 0 < np.count_nonzero(mask) < mask.size
    ]
    if not masks:
        raise InvalidInputError(
            f"All entries have the time {bound.astype('datetime64[s]')}, so that none is later than another; split "
            "them at random."
        )
    return min(masks, key=lambda mask: abs(int(np.count_nonzero(mask)) - n_latest))


def last_of_groups(
    groups: Positions, times: Times, n: object, draws: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return the mask of the last ``n`` entries of each group that has more of them; equal times are drawn."""
    count = check_count("last", n)
    order = np.lexsort((draws.permutation(times.size), times, groups))
    sizes = np.bincount(groups)
    ends = np.cumsum(sizes)[groups[order]]
    chosen = (ends - np.arange(order.size) <= count) & (sizes[groups[order]] > count)
    mask = np.zeros(order.size, dtype=bool)
    mask[order] = chosen
    if not mask.any():
        raise InvalidInputError(
            f"{parameter('last', count)} leaves no test entry: no row has more than {count} entries; choose fewer."
        )
    return mask


def period_numbers(times: Times, by: Calendar | int) -> npt.NDArray[np.int64]:
    """Return the number of the period of each time: of the calendar, or of ``by`` periods of about equal size.

    Numbers rise with time. Those of equal periods count from 0, and equal times are in one period.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.data.times import period_numbers
    >>> times = np.array(["1997-09-20", "1997-10-01", "1997-12-31"], dtype="datetime64[us]")
    >>> np.diff(period_numbers(times, "month")).tolist(), period_numbers(times, 2).tolist()
    ([1, 2], [0, 1, 1])
    """
    if is_whole(by):
        n = check_count("by", by, 1, times.size, meaning="the number of entries")
        distinct, which, counts = np.unique(times, return_inverse=True, return_counts=True)
        del distinct
        middle = np.cumsum(counts) - counts / 2
        found = np.minimum((middle * n / times.size).astype(np.int64), n - 1)
        return np.asarray(np.unique(found[which], return_inverse=True)[1])
    check_choice("by", by, get_args(Calendar))
    return CALENDAR[cast("Calendar", by)](times)


def _in_unit(unit: str) -> Callable[[Times], npt.NDArray[np.int64]]:
    return lambda times: times.astype(f"datetime64[{unit}]").astype(np.int64)


#: Number of the period of the calendar; a week begins on Monday, and 1970-01-01 was a Thursday.
CALENDAR: dict[Calendar, Callable[[Times], npt.NDArray[np.int64]]] = {
    "day": _in_unit("D"),
    "week": lambda times: (_in_unit("D")(times) + 3) // 7,
    "month": _in_unit("M"),
    "quarter": lambda times: _in_unit("M")(times) // 3,
    "year": _in_unit("Y"),
}
