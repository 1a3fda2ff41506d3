"""Tables for examples: their columns, what they hold, and that a fit reads them."""

import sys

import pandas as pd
import pytest

from tribit import InvalidInputError, Observations
from tribit.simulate import tables

#: The ids and the value of each table, with the share of likes that it is drawn with.
TABLES = {
    "ratings": (("user", "item", "stars"), 4, (0.4, 0.7)),
    "answers": (("person", "question", "correct"), 1, (0.4, 0.6)),
    "votes": (("member", "motion", "vote"), None, (0.5, 0.7)),
    "opinions": (("member", "statement", "opinion"), None, (0.4, 0.6)),
    "purchases": (("customer", "item", None), None, (1.0, 1.0)),
    "benchmark": (("model", "task", "solved"), 1, (0.4, 0.6)),
}


@pytest.mark.parametrize("name", tables.__all__)
def test_a_table_is_read_as_it_is(name):
    (row, column, value), like_at, (low, high) = TABLES[name]
    frame = getattr(tables, name)(random_state=0)
    assert isinstance(frame, pd.DataFrame)
    found = Observations.from_frame(frame, row=row, column=column, value=value, like_at=like_at)
    assert found.n_observed == len(frame)
    assert low <= found.n_likes / len(frame) <= high
    assert frame.equals(getattr(tables, name)(random_state=0))
    assert not frame.equals(getattr(tables, name)(random_state=1))


@pytest.mark.parametrize("name", tables.__all__)
def test_sizes_are_checked_and_kept(name):
    (row, column, _), *_ = TABLES[name]
    frame = getattr(tables, name)(60, 30, random_state=0)
    assert 55 <= frame[row].nunique() <= 60  # one may have bought nothing
    assert frame[column].nunique() == 30
    with pytest.raises(InvalidInputError, match="must be a whole number, at least 1"):
        getattr(tables, name)(0)


def test_every_task_of_the_benchmark_was_run():
    frame = tables.benchmark(20, 300, random_state=0)
    assert frame[frame.run].task.nunique() == 300
    assert frame.run.mean() < 0.3


def test_opinions_turn_with_time():
    """Of opposite first and last positions, early and late opinions of a pair of statements disagree."""
    frame = tables.opinions(400, 2, turn=3.141592653589793, random_state=0)
    share = (frame["time"] - frame["time"].min()) / (frame["time"].max() - frame["time"].min())
    assert frame["time"].dt.year.isin([2024, 2025]).all()
    parts = [frame[share < 0.15], frame[share > 0.85]]
    agreeing = []
    for early in parts:
        for late in parts:
            both = early[early["statement"] == "statement 0"].merge(
                late[late["statement"] == "statement 1"], on="member"
            )
            agreeing.append((both["opinion_x"] == both["opinion_y"]).mean())
    same, other = (agreeing[0] + agreeing[3]) / 2, (agreeing[1] + agreeing[2]) / 2
    assert abs(same - other) > 0.3
    assert (same - 0.5) * (other - 0.5) < 0


def test_each_customer_joined_in_one_year():
    frame = tables.purchases(random_state=0)
    assert (frame.groupby("customer").joined.nunique() == 1).all()
    assert set(frame.joined) == {2024, 2025}


def test_without_pandas_a_table_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInputError, match=r"The table needs pandas, .* install it"):
        tables.votes(random_state=0)
