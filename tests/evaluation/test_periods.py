"""Measures by period."""

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Observations, Recommender, evaluate
from tribit.errors import InvalidInputError, UnknownIdWarning
from tribit.evaluation import evaluate_by_time

RNG = np.random.default_rng(0)
ROWS, COLUMNS = np.nonzero(RNG.random((30, 20)) < 0.8)
SEEN = Observations(
    ROWS,
    COLUMNS,
    RNG.choice([-1, 1], ROWS.size),
    (30, 20),
    [f"u{n}" for n in range(30)],
    [f"i{n}" for n in range(20)],
    weights=RNG.uniform(0.5, 2.0, ROWS.size),
    times=np.datetime64("2026-01-01", "us") + np.timedelta64(1, "h") * RNG.permutation(ROWS.size),
)
FIXED = BinaryMatrixCompletion(
    (1, 0, 0), rank=1, l2=1.0, l2_intercept=1.0, implicit_features=False, random_state=0
)


def test_periods_have_the_measures_of_their_entries():
    train, test = SEEN.split(0.4, random_state=0)
    model = FIXED.fit(train)
    found = evaluate_by_time(model, test, by=3, level=0.9)
    assert found.measures() == evaluate(model, test, level=0.9).measures()
    order = np.argsort(test.times)
    for period, part in zip(found.periods, np.array_split(order, 3), strict=True):
        entries = test.take(np.sort(part))
        alone = evaluate(model, entries, level=0.9)
        assert period.n_entries == len(entries)
        assert period.base_rate == pytest.approx(entries.base_rate)
        assert period.measures["auc"] == pytest.approx(alone.auc)
        assert period.intervals["error_rate"] == pytest.approx(alone.intervals["error_rate"])
        assert (period.first, period.last) == tuple(
            np.datetime_as_string(np.sort(entries.times)[[0, -1]], unit="D")
        )
    assert len(found.table()["first"]) > 3 * 4
    with pytest.raises(
        InvalidInputError, match="by='month' is about the times of the test entries"
    ):
        evaluate_by_time(model, test.with_times(None))


def test_entries_of_unknown_rows_are_in_their_period_or_left_out():
    strangers = SEEN.rows >= 25
    train, test = SEEN.hold_out(strangers | (SEEN.columns > 15))
    known = train.split(0.1, random_state=0)[0]
    model = FIXED.fit(
        Observations(
            known.rows,
            known.columns,
            known.labels,
            (25, 16),
            SEEN.row_ids[:25],
            SEEN.column_ids[:16],
        )
    )
    test = test.take(np.flatnonzero((test.rows >= 25) & (test.columns <= 15)))
    both = Observations(
        np.append(test.rows, 0),
        np.append(test.columns, 0),
        np.append(test.labels, 1),
        SEEN.shape,
        SEEN.row_ids,
        SEEN.column_ids,
        times=np.append(test.times, np.datetime64("2027-01-01", "us")),
    )
    with pytest.warns(UnknownIdWarning):
        found = evaluate_by_time(model, both, "year")
    assert [each.n_entries for each in found.periods] == [len(test), 1]
    skipped = evaluate_by_time(model, both, "year", unknown="skip")
    assert [each.n_entries for each in skipped.periods] == [1]


def test_a_file_keeps_an_evaluation_and_a_question_has_periods(tmp_path):
    train, test = SEEN.split(0.3, by="time")
    recommender = Recommender(FIXED, ranker=False).fit(train, hold_out=0.2)
    recommender.save(tmp_path / "model")
    assert Recommender.load(tmp_path / "model").evaluation_ == recommender.evaluation_
    found = recommender.evaluate(test, by="week")
    assert found.periods == evaluate_by_time(recommender.model_, test, "week").periods
    assert found.lists is not None
    assert recommender.evaluate(test).periods == ()
