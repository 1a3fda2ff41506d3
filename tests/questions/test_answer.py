"""Answers: printed, as plain values, as a frame, and in files; alike for every question."""

import json
import re
import sys
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender
from tribit.answers import (
    MAX_PRINTED_RECORDS,
    Answer,
    as_json_values,
    check_headings,
    skipped_remark,
    with_ids,
)
from tribit.data.reading import Reading
from tribit.data.tables import read_table
from tribit.display import MAX_HTML_COLUMNS

#: Ids that would break a page, a terminal or a table if they were written as they are.
NASTY = ("<img src=x onerror=alert(1)>", "a&b", "two\nlines", "\x1b[31mred", 'quote"d, comma')
#: A question of each kind; each answers in the ids of the fixture.
ASK = {
    "info": lambda found: found.info(),
    "predict": lambda found: found.predictions((NASTY[:3], ["i1", "i2", "i3"])),
    "recommend": lambda found: found.recommend(NASTY[:2], 3),
    "evaluate": lambda found: found.evaluate(held_out()),
    "explain": lambda found: found.explain(NASTY[0], "i1"),
    "similar": lambda found: found.similar(rows=NASTY[:2], n=4),
    "positions": lambda found: found.positions(n=1),
    "means": lambda found: found.means(),
    "ask": lambda found: found.ask(3),
    "value": lambda found: found.value({NASTY[0]: found.recommend(NASTY[:2], 3)}, held_out()),
    "export": lambda found: found.vectors(),
}


@dataclass(frozen=True, eq=False, repr=False)
class Columns(Answer):
    """An answer that is no more than its table."""

    columns: dict

    def table(self):
        return {name: np.asarray(values) for name, values in self.columns.items()}


def drawn():
    """Return labels of all cells, and which are seen."""
    rng = np.random.default_rng(0)
    return rng.choice([-1, 1], (12, 9)), rng.random((12, 9)) < 0.6


def entries(chosen):
    labels, _ = drawn()
    i, j = np.nonzero(chosen)
    rows = [*NASTY, *(f"u{n}" for n in range(len(NASTY), 12))]
    return Observations(i, j, labels[i, j], (12, 9), rows, [f"i{n}" for n in range(9)])


def held_out():
    return entries(~drawn()[1])


@pytest.fixture(scope="module")
def recommender():
    model = BinaryMatrixCompletion(rank=2, l2=1.0, search=False, n_jobs=1)
    found = Recommender(model, random_state=0).fit(entries(drawn()[1]))
    found.reading_ = Reading(row="user", column="item", value="label")
    return found


@pytest.fixture(params=ASK)
def answer(request, recommender):
    return ASK[request.param](recommender)


# Every question


def test_an_answer_is_a_table_of_equal_columns(answer):
    assert isinstance(answer, Answer)
    table = answer.table()
    assert len({values.shape for values in table.values()}) == 1
    assert all(isinstance(values, np.ndarray) for values in table.values())
    assert len(next(iter(table.values()))) > 0
    answer.check()


def test_a_frame_has_the_columns_of_the_table(answer):
    frame, table = answer.to_frame(), answer.table()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame) == list(table)
    for name, values in table.items():
        assert len(frame) == len(values)
        assert [str(each) for each in frame[name]] == [str(each) for each in values.tolist()] or (
            name == "vector"
        )


def test_plain_values_are_json_as_they_are(answer):
    found = answer.to_dict()
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(as_json_values(found)))


def test_facts_are_texts(answer):
    facts = answer.facts()
    assert all(isinstance(each, str) for pair in facts.items() for each in pair)


def test_it_prints_what_a_notebook_shows_as_text(answer):
    assert repr(answer) == str(answer) == answer.text(MAX_PRINTED_RECORDS)
    assert repr(answer).replace("\n", "").isprintable()


def test_a_page_has_no_markup_but_its_own(answer):
    page = answer._repr_html_()
    assert page.endswith("</tbody></table>")
    assert "<img" not in page
    assert page.replace("\n", "").isprintable()
    assert len(page) < 20_000


def test_a_page_has_the_first_records_and_columns():
    long = Columns({"id": np.arange(MAX_PRINTED_RECORDS + 5)})
    page = long._repr_html_()
    assert page.count("<tr>") == 1 + MAX_PRINTED_RECORDS
    assert page.endswith(f"<p>... {MAX_PRINTED_RECORDS + 5} records</p>")
    wide = Columns({f"c{n}": [n] for n in range(MAX_HTML_COLUMNS + 3)})._repr_html_()
    assert wide.count("<td>") == MAX_HTML_COLUMNS
    assert wide.endswith(f"<p>... {MAX_HTML_COLUMNS + 3} columns</p>")


@pytest.mark.parametrize("name", [name for name in ASK if name != "export"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_a_file_has_the_table(recommender, tmp_path, name, ending):
    answer, path = ASK[name](recommender), tmp_path / f"answer.{ending}"
    answer.write(path, escape_formulas=False)
    read, table = read_table(path), answer.table()
    assert list(read.columns) == list(table)
    for column, values in table.items():
        if values.dtype.kind == "f":
            numbers = [float(text) if text else np.nan for text in read.columns[column]]
            np.testing.assert_allclose(np.array(numbers, dtype=float), values, rtol=1e-9)
        else:
            texts = [str(value).strip() for value in values.tolist()]
            assert read.columns[column].tolist() == texts


def test_headings_are_those_of_the_table_of_the_fit(recommender):
    assert list(ASK["predict"](recommender).table())[:2] == ["user", "item"]
    assert list(ASK["recommend"](recommender).table())[:2] == ["user", "item"]
    assert list(ASK["similar"](recommender).table()) == ["of", "user", "similarity"]
    assert list(recommender.similar(columns=["i3"]).table()) == ["of", "item", "similarity"]
    assert next(iter(ASK["explain"](recommender).table())) == "item"


def test_an_explanation_has_the_words_of_the_table_of_the_fit(recommender):
    found = ASK["explain"](recommender)
    assert not re.search(r"\b(row|column)", str(found))
    assert {"item effect", "user effect", "labels of the user"} <= set(
        re.findall(r"^  (.*?)  ", str(found), re.M)
    )
    assert {"column effect", "row effect"} <= set(found.parts)  # names in JSON and Python
    with_mark = replace(found, names=("user", "<b>\x1b"))
    assert "\x1b" not in str(with_mark)


@pytest.mark.parametrize("name", ["probability", "label", "basis"])
def test_a_heading_that_is_also_a_column_of_predictions_is_refused(recommender, tmp_path, name):
    clashing = replace(ASK["predict"](recommender), names=("user", name))
    for use in (clashing.table, clashing.to_frame, lambda: clashing.write(tmp_path / "o.csv")):
        with pytest.raises(
            InvalidInputError, match=f"'{name}' has the name of a column of the answer"
        ):
            use()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["place", "score", "lower", "expected_likes", "basis"])
def test_a_heading_that_is_also_a_column_of_lists_is_refused(recommender, name):
    clashing = replace(ASK["recommend"](recommender), names=(name, "item"))
    with pytest.raises(InvalidInputError, match=f"'{name}' has the name of a column of the answer"):
        clashing.table()


@pytest.mark.parametrize("name", ["of", "similarity"])
def test_a_heading_that_is_also_a_column_of_neighbours_is_refused(recommender, name):
    clashing = replace(ASK["similar"](recommender), name=name)
    with pytest.raises(InvalidInputError, match=f"'{name}' has the name of a column of the answer"):
        clashing.table()


# The base class


def test_a_table_is_aligned_and_numbers_have_four_digits():
    found = Columns({"id": ["a", "bcd"], "n": [1, 20], "x": [0.123456, np.nan]})
    assert str(found).splitlines() == ["id    n       x", "a     1  0.1235", "bcd  20"]


def test_long_tables_and_cells_are_cut_where_they_are_printed_and_nowhere_else(tmp_path):
    found = Columns({"id": [f"{n} {'x' * 100}" for n in range(MAX_PRINTED_RECORDS + 5)]})
    lines = str(found).splitlines()
    assert len(lines) == 1 + MAX_PRINTED_RECORDS + 1
    assert lines[1] == f"0 {'x' * 55}..."
    assert lines[-1] == f"... {MAX_PRINTED_RECORDS + 5} records"
    assert len(found.text().splitlines()) == 1 + MAX_PRINTED_RECORDS + 5
    assert len(found.to_dict()) == MAX_PRINTED_RECORDS + 5
    found.write(tmp_path / "o.csv")
    assert read_table(tmp_path / "o.csv").columns["id"].tolist() == found.columns["id"]


def test_records_are_plain_values():
    found = Columns({"id": np.array([7, 8]), "x": np.array([0.5, 1.5], dtype=np.float32)})
    assert found.to_dict() == [{"id": 7, "x": 0.5}, {"id": 8, "x": 1.5}]
    assert {type(value) for record in found.to_dict() for value in record.values()} == {int, float}


def test_markup_in_ids_and_headings_is_escaped():
    page = Columns({"<b>": ["<script>alert(1)</script>", "a&b"], "n": [1, 2]})._repr_html_()
    assert "<th>&lt;b&gt;</th><th>n</th>" in page
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in page
    assert "<td>a&amp;b</td>" in page
    assert "<script" not in page


def test_what_json_has_no_number_for_is_null(tmp_path):
    found = Columns({"id": ["a", "b", "c"], "x": [np.nan, np.inf, 0.5]})
    found.write(tmp_path / "o.jsonl")
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["x"] for line in lines] == [
        None,
        None,
        0.5,
    ]
    assert as_json_values(found.to_dict()) == [json.loads(line) for line in lines]


def test_without_pandas_a_frame_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInputError, match=r"to_frame needs pandas, .* use table\(\)"):
        Columns({"n": [1]}).to_frame()


def test_an_answer_without_a_summary_has_no_facts():
    assert Columns({"n": [1]}).facts() == {}
    with pytest.raises(TypeError, match="abstract"):
        Answer()


def test_formulas_are_escaped_where_it_is_asked_for(tmp_path):
    found = Columns({"id": ["=1+1", "a"]})
    found.write(tmp_path / "o.csv", escape_formulas=True)
    assert (tmp_path / "o.csv").read_text() == "id\n'=1+1\na\n"
    with pytest.warns(UserWarning, match="escape_formulas"):
        found.write(tmp_path / "o.csv")


def test_ids_stand_before_the_columns_and_have_other_names():
    ids = np.array(["a"]), np.array(["x"])
    found = with_ids(("user", "item"), ids, {"score": np.array([0.5])})
    assert list(found) == ["user", "item", "score"]
    with pytest.raises(
        InvalidInputError, match=r"'score' has the name of a column of the answer \(score\)"
    ):
        with_ids(("user", "score"), ids, {"score": np.array([0.5])})
    check_headings(["user"], ["score"])


def test_plain_values():
    given = {"a": np.float32(0.5), 3: (np.int64(1), np.nan), "b": np.array([1.0, -np.inf])}
    assert as_json_values(given) == {"a": 0.5, "3": [1, None], "b": [1.0, None]}
    assert as_json_values({"x": None, "y": True, "z": "text"}) == {
        "x": None,
        "y": True,
        "z": "text",
    }


def test_what_was_left_out_is_counted():
    assert skipped_remark(0) == ""
    assert skipped_remark(3) == " (3 with unknown ids left out)"
