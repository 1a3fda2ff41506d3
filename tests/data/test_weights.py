"""Weights of entries, from arrays, matrices, frames and files."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from tribit.data.observations import Observations, as_observations
from tribit.data.reading import Reading, observations_from_file
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError, InvalidTypeError

A = np.array([[1, 0, -1], [0, 1, 1]])
W = np.array([[2.0, 9.0, 0.5], [9.0, 0.0, 1.0]])
PLAYS = {"user": ["ann", "ann", "bob", "cid"], "song": ["x", "y", "x", "z"], "n": [3, 1, 7, 0]}


def triplets(seen):
    """Return (row id, column id, label, weight) of each entry."""
    rows, columns = (
        axis.names(at).tolist()
        for axis, at in zip(seen.axes, (seen.rows, seen.columns), strict=True)
    )
    return list(
        zip(rows, columns, seen.labels.tolist(), seen.weights_or_ones.tolist(), strict=True)
    )


OF_A = [(0, 0, 1, 2.0), (0, 2, -1, 0.5), (1, 2, 1, 1.0)]


@pytest.mark.parametrize(
    "seen",
    [
        Observations.from_matrix(A, weights=W),
        Observations.from_matrix(sp.csr_array(A), weights=sp.coo_array(W)),
        Observations.from_matrix(sp.csr_matrix(A), weights=sp.csr_matrix(W)),
        Observations.from_matrix(pd.DataFrame(A), weights=pd.DataFrame(W)),
        Observations([0, 0, 1, 1], [2, 0, 1, 2], [-1, 1, 1, 1], (2, 3), weights=[0.5, 2, 0, 1]),
        Observations.from_matrix(A).with_weights([2, 0.5, 0, 1]),
        as_observations(A, weights=W),
        as_observations(Observations.from_matrix(A), weights=(2, 0.5, np.float32(0), 1)),
    ],
)
def test_entries_have_their_weights_and_those_of_weight_0_are_left_out(seen):
    assert triplets(seen) == OF_A
    assert seen.shape == (2, 3)


FRAMES = {
    "pandas": pd.DataFrame(PLAYS),
    "polars": pl.DataFrame(PLAYS),
    "dict": PLAYS,
    "nullable": pd.DataFrame(PLAYS).astype({"n": "Int64"}),
}
OF_PLAYS = [("ann", "x", 1, 3.0), ("ann", "y", 1, 1.0), ("bob", "x", 1, 7.0)]


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("given", [{"weight": "n"}, {"weights": PLAYS["n"]}])
def test_a_frame_has_a_column_of_weights_or_an_array(frame, given):
    seen = Observations.from_frame(frame, row="user", column="song", **given)
    assert triplets(seen) == OF_PLAYS
    assert seen.row_ids.tolist() == ["ann", "bob"]  # cid is absent, as the entry is


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_file_has_a_column_of_weights(tmp_path, ending):
    path, frame = tmp_path / f"plays{ending}", pd.DataFrame(PLAYS)
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    assert triplets(observations_from_file(path, row="user", column="song", weight="n")) == OF_PLAYS
    reading = Reading(row="user", column="song", weight="n", weight_scale="log1p")
    found = reading.records(path)
    again = type(found.reading).from_json(found.reading.to_json())
    for seen in (found.observations(), again.read(path)):
        np.testing.assert_allclose(seen.weights, np.log([4.0, 2.0, 8.0]))
    both = observations_from_file(
        path, row="user", column="song", value="n", weight="n", like_at=2
    )  # zeros are of weight 0
    assert both.labels.tolist() == [1, -1, 1]


def test_weights_in_a_text_without_a_header_and_with_decimal_commas(tmp_path):
    path = tmp_path / "plays.csv"
    path.write_text("ann;x;1;2,5\nbob;x;0;0,5\n")
    seen = observations_from_file(
        path, row="0", column="1", value="2", weight="3", delimiter=";", decimal=","
    )
    assert triplets(seen) == [("ann", "x", 1, 2.5), ("bob", "x", -1, 0.5)]


def test_a_logarithmic_scale_is_that_of_every_source():
    rules = TableRules(weight_scale="log1p")
    for seen in (
        as_observations(A, rules, weights=W),
        as_observations(Observations.from_matrix(A), rules, weights=[2, 0.5, 0, 1]),
        Observations.from_matrix(A, weights=W, weight_scale="log1p"),
    ):
        np.testing.assert_allclose(seen.weights, np.log1p([2.0, 0.5, 1.0]))


MERGED = {  # of (label, weight) of one pair: the label and the weight that stay
    "agree": ("error", [(1, 2.0), (1, 0.5)], (1, 2.5)),
    "ones": ("error", [(1, 1.0), (1, 1.0)], (1, 2.0)),
    "absent": ("error", [(1, 2.0), (-1, 0.0)], (1, 2.0)),
    "first": ("first", [(1, 2.0), (-1, 5.0)], (1, 2.0)),
    "last": ("last", [(1, 2.0), (-1, 5.0)], (-1, 5.0)),
    "majority": ("majority", [(1, 2.0), (-1, 1.5), (-1, 1.0)], (-1, 2.5)),
    "tie": ("majority", [(1, 2.0), (-1, 2.0)], (-1, 2.0)),
}


@pytest.mark.parametrize(("duplicates", "given", "kept"), MERGED.values(), ids=MERGED)
def test_the_weights_of_equal_duplicates_are_added_up(duplicates, given, kept):
    labels, weights = zip(*given, strict=True)
    at = [0] * len(given)
    seen = Observations.from_pairs(at, at, labels, weights=weights, duplicates=duplicates)
    assert (seen.labels.tolist(), seen.weights_or_ones.tolist()) == ([kept[0]], [kept[1]])


def test_without_weights_equal_duplicates_are_one_entry():
    assert Observations.from_pairs([0, 0], [0, 0], [1, 1]).weights is None


def test_parts_of_entries_keep_their_weights():
    draws = np.random.default_rng(0)
    seen = Observations.from_matrix(draws.choice([-1, 1], (6, 5)), weights=draws.random((6, 5)))
    whole = {each[:2]: each[3] for each in triplets(seen)}
    parts = [
        *seen.split(0.3, random_state=0),
        *next(iter(seen.folds(3, random_state=0))),
        seen.take([0, 7, 3]),
        pickle.loads(pickle.dumps(seen)),
    ]
    for part in parts:
        assert all(whole[each[:2]] == each[3] for each in triplets(part))
    assert {(j, i): w for i, j, _, w in triplets(seen.transpose())} == whole
    assert seen.as_likes().weights is None
    with pytest.raises(ValueError, match="read-only"):
        seen.weights[0] = 1.0


def test_sums_of_weights():
    seen = Observations.from_matrix(A, weights=W)
    assert (seen.n_likes, seen.n_dislikes) == (2, 1)
    assert seen.label_totals == (3.0, 0.5)
    assert seen.base_rate == pytest.approx(3 / 3.5)
    assert seen.n_cells == 7.0
    assert [each.tolist() for each in seen.totals] == [[2.5, 1.0], [2.0, 0.0, 1.5]]
    assert "weights" in seen.facts()


LONG = {"row": "user", "column": "song"}
WRONG = {
    "negative": (lambda: Observations.from_matrix(A, weights=-W), "row 0, column 0 of weights"),
    "NaN": (lambda: Observations.from_pairs([0], [0], [1], weights=[np.nan]), "position 0: .* nan"),
    "infinite": (lambda: Observations.from_pairs([0], [0], [1], weights=[np.inf]), "inf is not"),
    "all 0": (lambda: Observations.from_pairs([0], [0], [1], weights=[0]), "Every weight is 0"),
    "length": (lambda: Observations.from_pairs([0], [0], [1], weights=[1, 2]), r"\(2,\) for 1"),
    "number": (lambda: Observations.from_pairs([0], [0], [1], weights=2.0), r"\(\) for 1"),
    "shape": (lambda: Observations.from_matrix(A, weights=W.T), r"\(3, 2\) and X \(2, 3\)"),
    "twice": (
        lambda: as_observations(Observations.from_matrix(A, weights=W), weights=[1, 1, 1]),
        "weights of its own",
    ),
    "both": (
        lambda: Observations.from_frame(PLAYS, **LONG, weight="n", weights=[1] * 4),
        "both given",
    ),
    "rows of a frame": (
        lambda: Observations.from_frame(PLAYS, **LONG, weights=[1] * 3),
        r"\(3,\) for 4 rows",
    ),
    "no column": (lambda: Observations.from_frame(PLAYS, **LONG, weight="m"), "no column 'm'"),
    "scale alone": (
        lambda: Observations.from_frame(PLAYS, **LONG, weight_scale="log1p"),
        "there are none",
    ),
    "scale of a matrix": (
        lambda: Observations.from_matrix(A, weight_scale="log1p"),
        "there are none",
    ),
    "scale of a file": (lambda: Reading(weight_scale="log1p"), "there are none"),
    "scale": (lambda: TableRules(weight_scale="log"), "one of linear, log1p"),
    "wide": (lambda: Reading(layout="wide", weight="n"), "entry in each record"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_weights_are_refused_in_a_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(InvalidTypeError, match="must be numbers"):
        Observations.from_pairs([0], [0], [1], weights=["many"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("many", "line 3 of plays.csv: the weight 'many' in column 'n'"),
        ("-1", "line 3 of plays.csv: the weight -1 is not"),
    ],
)
def test_a_wrong_weight_of_a_file_is_named_by_its_line(tmp_path, text, message):
    path = tmp_path / "plays.csv"
    path.write_text(f"user,song,n\nann,x,2\nbob,x,{text}\n")
    with pytest.raises(InvalidInputError, match=message):
        observations_from_file(path, **LONG, weight="n")
    if text == "-1":
        return
    path.write_text("user,song,n\nann,x,2\nbob,x,\n")
    with pytest.raises(InvalidInputError, match="line 3"):
        observations_from_file(path, **LONG, weight="n")
    seen = observations_from_file(path, **LONG, weight="n", missing="skip")
    assert triplets(seen) == [("ann", "x", 1, 2.0)]


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1, "many"], "got the dtype <U"),
        (np.array([1, "many"], dtype=object), "position 1: the weight 'many' is no number"),
        ([1.0, 1 + 2j], "got the dtype complex128"),
        (np.array(["2026-01-01"] * 2, dtype="datetime64[D]"), "got the dtype datetime64"),
        ([[1], [2, 3]], "weights must be numbers, one for each entry; got list"),
        (
            [1.0, 1e13],
            r"position 1: the largest weight is 1e\+13; divide all weights by their mean",
        ),
        ([1e-13, 1e-14], "position 0: the largest weight is 1e-13; divide"),
    ],
)
def test_other_weights_are_refused_with_their_place(weights, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        Observations.from_pairs([0, 1], [0, 1], [1, -1], weights=weights)
