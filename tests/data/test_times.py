"""Times of entries, from arrays, frames and files; splits by time."""

import pickle
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tribit.data.decay import Decay
from tribit.data.observations import Observations
from tribit.data.reading import Reading, observations_from_file
from tribit.data.times import period_numbers
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.folding.new_rows import merge_entries

#: Of three entries: one day, one second and one month apart.
ISO = ["1997-09-20T03:05:10", "1997-09-21T03:05:11", "1998-04-22T23:10:38"]
TIMES = np.array(ISO, dtype="datetime64[us]")
SECONDS = [874724710, 874811111, 893286638]
MOMENTS = [datetime.fromisoformat(each) for each in ISO]
EAST = timezone(timedelta(hours=5))
ENTRIES = {"user": ["ann", "bob", "ann"], "item": ["x", "x", "y"], "label": [1, -1, 1]}
NAMES = {"row": "user", "column": "item", "value": "label", "time": "when"}
COLUMNS = {
    "seconds": SECONDS,
    "milliseconds": [1000 * each for each in SECONDS],
    "floats": [float(each) for each in SECONDS],
    "text of seconds": [str(each) for each in SECONDS],
    "ISO": ISO,
    "ISO in UTC": [f"{each}Z" for each in ISO],
    "ISO in the east": [each.replace(tzinfo=UTC).astimezone(EAST).isoformat() for each in MOMENTS],
    "datetimes": MOMENTS,
    "datetime64": TIMES.astype("datetime64[ns]"),
}


def by_ids(seen, times):
    """Return times of the entries of a frame in the order of the observations."""
    places = {pair: n for n, pair in enumerate(zip(ENTRIES["user"], ENTRIES["item"], strict=True))}
    rows, columns = seen.axes.rows.names(seen.rows), seen.axes.columns.names(seen.columns)
    return times[[places[pair] for pair in zip(rows, columns, strict=True)]]


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_a_frame_has_a_column_of_times(values):
    for frame in ({**ENTRIES, "when": values}, pd.DataFrame({**ENTRIES, "when": values})):
        seen = Observations.from_frame(frame, **NAMES)
        np.testing.assert_array_equal(seen.times, by_ids(seen, TIMES))
        assert "from 1997-09-20 to 1998-04-22" in repr(seen)
        assert seen.facts()["times"] == "from 1997-09-20 to 1998-04-22"


FRAMES = {
    "pandas with a zone": lambda f: f.assign(
        when=pd.to_datetime(f["when"], utc=True).dt.tz_convert("Asia/Tokyo")
    ),
    "polars": pl.from_pandas,
    "polars with a zone": lambda f: pl.from_pandas(f).with_columns(
        pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
    "pyarrow": pa.Table.from_pandas,
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_datetimes_of_frames_are_in_utc(make):
    seen = Observations.from_frame(make(pd.DataFrame({**ENTRIES, "when": TIMES})), **NAMES)
    np.testing.assert_array_equal(seen.times, by_ids(seen, TIMES))
    assert seen.rules.notes == ()


def test_dates_are_midnights():
    days = TIMES.astype("datetime64[D]")
    for values in (
        days.tolist(),
        pl.Series(days.tolist(), dtype=pl.Date),
        [str(each) for each in days],
    ):
        seen = Observations.from_frame(pl.DataFrame({**ENTRIES, "when": values}), **NAMES)
        np.testing.assert_array_equal(seen.times, by_ids(seen, days.astype(TIMES.dtype)))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("kind", ["seconds", "milliseconds", "ISO", "datetime64"])
def test_a_file_has_a_column_of_times(tmp_path, ending, kind):
    path, frame = tmp_path / f"votes{ending}", pd.DataFrame({**ENTRIES, "when": COLUMNS[kind]})
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True, date_format="iso")
    else:
        frame.to_parquet(path)
    records = Reading(**NAMES).records(path)
    np.testing.assert_array_equal(records.times, TIMES)
    notes = [note for note in records.reading.notes if "since 1970" in note]
    assert len(notes) == (kind in ("seconds", "milliseconds"))
    if notes:
        assert f"the times in column 'when' are {kind} since 1970 (guessed)" in notes[0]
        assert "from 1997-09-20 to 1998-04-22" in notes[0]
    again = Reading.from_json(records.reading.to_json())
    np.testing.assert_array_equal(again.read(path).times, by_ids(again.read(path), TIMES))
    assert observations_from_file(path, **{**NAMES, "time": "none"}).times is None


def test_times_of_a_text_without_a_header(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("1\t2\t3\t881250949\n1\t3\t4\t891717742\n")
    seen = observations_from_file(path, row="0", column="1", value="2", time="3", like_at=4)
    assert seen.times.astype("datetime64[D]").astype(str).tolist() == ["1997-12-04", "1998-04-04"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("20/09/1997", "20/09/1997"),
        ("1997", "1997"),
        ("19970920", "19970920"),
        ("inf", "inf"),
        ("1e15", "1e15"),
        ("soon", "soon"),
    ],
)
def test_what_is_no_time_is_named_with_its_line(tmp_path, value, shown):
    path = tmp_path / "votes.csv"
    others = [ISO[0]] * 2 if value == "soon" else [value] * 2
    frame = pd.DataFrame({**ENTRIES, "when": [others[0], value, others[1]]})
    frame.to_csv(path, index=False)
    line = 3 if value == "soon" else 2
    match = f"line {line} of votes.csv: the time '{shown}' in column 'when' is not an ISO date"
    with pytest.raises(InvalidInputError, match=match):
        observations_from_file(path, **NAMES)
    with pytest.raises(InvalidInputError, match=f"row {line - 2} of the frame: the time '{shown}'"):
        Observations.from_frame(frame, **NAMES)


def test_missing_times_are_refused_or_skipped(tmp_path):
    path, frame = tmp_path / "votes.csv", pd.DataFrame({**ENTRIES, "when": TIMES})
    frame.loc[1, "when"] = pd.NaT
    frame.to_csv(path, index=False)
    with pytest.raises(InvalidInputError, match=r"line 3 .*: the time in column 'when' is empty"):
        observations_from_file(path, **NAMES)
    with pytest.raises(
        InvalidInputError, match="row 1 of the frame: the time in column 'when' is missing"
    ):
        Observations.from_frame(frame, **NAMES)
    for seen in (
        observations_from_file(path, **NAMES, missing="skip"),
        Observations.from_frame(frame, **NAMES, missing="skip"),
        Observations.from_frame(pl.from_pandas(frame), **NAMES, missing="skip"),
    ):
        np.testing.assert_array_equal(seen.times, TIMES[[0, 2]])


def test_times_of_positions_are_checked():
    places = [0, 1], [1, 0], [1, -1]
    with pytest.raises(InvalidInputError, match=r"times has the shape \(1,\) for 2 entries"):
        Observations.from_pairs(*places, times=[SECONDS[0]])
    with pytest.raises(InvalidInputError, match="position 1: the time 'NaT' is not"):
        Observations.from_pairs(*places, times=np.array([ISO[0], "NaT"], dtype="datetime64[s]"))
    with pytest.raises(InvalidTypeError, match="got the type bool"):
        Observations.from_pairs(*places, times=[True, False])
    for values in (pd.Series(TIMES[:2]), pl.Series(TIMES[:2]), [date(1997, 9, 20), MOMENTS[1]]):
        seen = Observations.from_pairs(*places, times=values)
        assert seen.times.astype("datetime64[D]").astype(str).tolist() == [
            "1997-09-20",
            "1997-09-21",
        ]
    assert seen.with_times(None).times is None


@pytest.mark.parametrize(
    ("duplicates", "kept"), [("error", 2), ("majority", 2), ("first", 0), ("last", 1)]
)
def test_a_repeated_pair_has_the_time_of_the_label_that_is_kept(duplicates, kept):
    order = [1, 0, 2] if duplicates == "error" else [0, 1, 2]
    labels = [1, 1, 1] if duplicates == "error" else [1, -1, 1]
    if duplicates == "last":
        order, labels, kept = [0, 2, 1], [1, -1, -1], 1
    seen = Observations.from_pairs(
        [0] * 3, [0] * 3, labels, times=TIMES[order], duplicates=duplicates
    )
    assert seen.times.tolist() == [TIMES[kept].tolist()]


def random_entries(seed=0, size=(12, 10), days=30):
    draws = np.random.default_rng(seed)
    rows, columns = np.nonzero(draws.random(size) < 0.6)
    times = np.datetime64("2026-01-01", "us") + np.timedelta64(1, "D") * draws.integers(
        0, days, rows.size
    )
    return Observations(rows, columns, draws.choice([-1, 1], rows.size), size, times=times)


def triples(seen):
    return sorted(zip(seen.rows.tolist(), seen.columns.tolist(), seen.times.tolist(), strict=True))


def test_times_stay_with_their_entries():
    seen = random_entries()
    train, test = seen.split(0.3, random_state=0)
    assert sorted(triples(train) + triples(test)) == triples(seen)
    assert triples(seen.take([3, 1])) == [triples(seen)[1], triples(seen)[3]]
    assert triples(pickle.loads(pickle.dumps(seen))) == triples(seen)
    turned = seen.transpose()
    assert sorted((j, i, t) for i, j, t in triples(turned)) == triples(seen)
    weights = np.arange(len(seen), dtype=float)
    assert triples(seen.with_weights(weights)) == triples(seen)[1:]
    sides = (train.rows, train.columns), train, (test.rows, test.columns), test
    assert triples(merge_entries(*sides, seen.axes)) == triples(seen)
    assert merge_entries(*sides[:3], test.with_times(None), seen.axes).times is None
    with pytest.raises(ValueError, match="read-only"):
        seen.times[0] = TIMES[0]


def test_a_split_by_time_holds_out_the_latest_and_keeps_equal_times_together():
    seen = random_entries()
    for test_share in (0.1, 0.35, 20):
        train, test = seen.split(test_share, by="time")
        assert train.times.max() < test.times.min()
        wanted = test_share if isinstance(test_share, int) else test_share * len(seen)
        largest = np.unique(seen.times, return_counts=True)[1].max()
        assert abs(len(test) - wanted) <= largest / 2 + 0.5
    same = Observations([0, 1], [0, 1], [1, -1], (2, 2), times=[ISO[0]] * 2)
    with pytest.raises(InvalidInputError, match="All entries have the time 1997-09-20T03:05:10"):
        same.split(0.5, by="time")


def test_the_last_entries_of_each_row_are_held_out():
    seen = random_entries()
    counts = seen.counts[0]
    train, test = seen.split(by="time", last=3, random_state=0)
    np.testing.assert_array_equal(test.counts[0], np.where(counts > 3, 3, 0))
    for row in np.flatnonzero(counts > 3):
        assert train.times[train.rows == row].max() <= test.times[test.rows == row].min()
    assert triples(seen.split(by="time", last=3, random_state=0)[1]) == triples(test)
    # Of equal times, chance decides: over seeds, each entry of a row is held out.
    alike = seen.with_times([ISO[0]] * len(seen))
    found = {
        each
        for seed in range(60)
        for each in triples(alike.split(by="time", last=1, random_state=seed)[1])
    }
    assert len(found) > 0.95 * np.count_nonzero(counts[alike.rows] > 1)


def test_splits_by_time_that_are_refused():
    seen = random_entries()
    with pytest.raises(InvalidInputError, match="the entries have none; pass time"):
        seen.with_times(None).split(by="time")
    with pytest.raises(InvalidInputError, match="last=2 needs by='time'"):
        seen.split(last=2)
    with pytest.raises(InvalidInputError, match="last=99 leaves no test entry"):
        seen.split(by="time", last=99)
    with pytest.raises(InvalidInputError, match="by"):
        seen.split(by="date")


def test_periods_of_the_calendar_and_of_equal_size():
    days = np.arange("2025-12-20", "2027-01-15", dtype="datetime64[D]")
    index, times = pd.DatetimeIndex(days), days.astype("datetime64[us]")
    for by, letter in {
        "day": "D",
        "week": "W-SUN",
        "month": "M",
        "quarter": "Q",
        "year": "Y",
    }.items():
        expected = pd.factorize(index.to_period(letter))[0]
        np.testing.assert_array_equal(
            np.unique(period_numbers(times, by), return_inverse=True)[1], expected
        )
    for n in (1, 2, 7):
        found = period_numbers(times, n)
        assert (np.diff(found) >= 0).all()
        sizes = np.bincount(found)
        assert sizes.size == n
        assert sizes.max() - sizes.min() <= 1
    with pytest.raises(InvalidInputError, match="by"):
        period_numbers(times, "decade")


def test_weights_halve_with_age_and_keep_their_sum():
    seen = random_entries()
    own = np.random.default_rng(1).uniform(0.5, 2.0, len(seen))
    for entries in (seen, seen.with_weights(own)):
        found = Decay.of(entries, 5.0).weigh(entries)
        ages = (seen.times.max() - seen.times) / np.timedelta64(1, "D")
        expected = entries.weights_or_ones * 0.5 ** (ages / 5.0)
        expected *= entries.weights_or_ones.sum() / expected.sum()
        np.testing.assert_allclose(found.weights, expected)
        assert found.times is None
        assert found.n_observed == seen.n_observed
    old = Observations([0, 0], [0, 1], [1, -1], (1, 2), times=["1900-01-01", "2000-01-01"])
    assert Decay.of(old, 1.0).weigh(old).weights.min() > 0  # nothing vanishes
