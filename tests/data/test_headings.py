"""Headings of texts whose columns are given by number, and the headings that tribit writes itself."""

import numpy as np
import pytest

from asked import n_unknown, predict_file, recommend_file
from tribit.cli.actions import fit_file
from tribit.data.reading import Reading

RATINGS = "user,item,stars\na,x,5\na,y,1\nb,x,2\nb,z,4\nc,y,5\nc,z,1\n"
PLACES = {"row": "0", "column": "1", "value": "2"}
FIXED = {"rank": 1, "l2": 1.0, "l2_intercept": 1.0, "search": False, "random_state": 0}


def read(tmp_path, text, **rules):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return Reading(**rules).records(path)


@pytest.mark.parametrize(
    ("text", "rules", "n"),
    [
        (RATINGS, {**PLACES, "like_at": 4}, 6),
        ("u,i,opinion\na,x,yes\na,y,no\n", PLACES, 2),
        ("u,i,opinion\na,x,good\na,y,bad\n", {**PLACES, "like": "good", "dislike": "bad"}, 2),
        ("User_ID,Items\na,x\na,y\n", {"row": "0", "column": "1"}, 2),
    ],
)
def test_a_heading_is_no_record(tmp_path, text, rules, n):
    records = read(tmp_path, text, **rules)
    assert records.rows.size == n
    assert records.rows[0] == "a"
    assert any("is a heading (guessed)" in note for note in records.reading.notes)
    assert (records.reading.row, records.reading.column) == ("0", "1")
    assert records.where(0).startswith("line 2")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a,x,5\na,y,1\n", {**PLACES, "like_at": 4}),
        ("a,x,no\na,y,yes\n", PLACES),
        ("a,x,bad\na,y,good\n", {**PLACES, "like": "good", "dislike": "bad"}),
        ("a,x\na,y\n", {"row": "0", "column": "1"}),
        ("user,item\nuser,thing\n", {"row": "0", "column": "1"}),  # an id that comes again
        ("user,item\n", {"row": "0", "column": "1"}),
    ],
)
def test_a_record_is_no_heading(tmp_path, text, rules):
    records = read(tmp_path, text, **rules)
    assert records.rows.size == text.count("\n")
    assert not records.reading.notes or "guessed" in records.reading.notes[0]


@pytest.mark.parametrize("places", [("0", "1"), ("1", "0")])
def test_what_a_model_of_numbered_columns_writes_it_reads_again(tmp_path, places):
    ratings, model = tmp_path / "ratings.csv", tmp_path / "model.tribit"
    ratings.write_text(RATINGS)
    named = {"row": places[0], "column": places[1], "value": "2", "like_at": 4}
    fit_file(ratings, **named, **FIXED).save(model)
    lists, scores = tmp_path / "lists.csv", tmp_path / "scores.csv"
    found = recommend_file(model, out=lists, n=1)
    assert lists.read_text().startswith("row,column,place")
    first = predict_file(model, lists, scores)
    assert len(first) == found.lengths.sum()
    assert n_unknown(first) == 0
    again = predict_file(model, scores, tmp_path / "again.csv").table()
    for name, values in first.table().items():
        np.testing.assert_array_equal(values, again[name])
