"""Ids that a spreadsheet would run: told, or escaped when that is asked for."""

import warnings

import numpy as np
import pytest

from tribit.data.tables import escape_cells, first_formula, read_table, write_table
from tribit.errors import TribitWarning

RUN = ["=1+1", "+cmd", "-2+3", "@sum", "\tx", "\rx", "\nx", "\uff1d1", "-", "--5", "-inf", "-1e"]
KEPT = ["u1", "", "-5", "+5", "-.5e-3", "+7.", "'=x", "a=b", " =x", "ü", "1", "1e5="]


@pytest.mark.parametrize("text", RUN)
def test_what_begins_like_a_formula_is_escaped(text):
    assert first_formula(["u1", text]) == text
    assert escape_cells(np.array(["u1", text], dtype=object)).tolist() == ["u1", f"'{text}"]


@pytest.mark.parametrize("text", KEPT)
def test_numbers_and_other_texts_are_not(text):
    assert first_formula([text, 7, -7.5, None]) is None
    assert escape_cells(np.array([text, 7, -7.5, None], dtype=object)).tolist() == [
        text,
        7,
        -7.5,
        None,
    ]


def test_numbers_stay_numbers():
    values = np.array([-1.5, 2.0])
    assert escape_cells(values) is values


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz", "o.parquet"])
def test_a_table_has_its_ids_back_unless_they_are_escaped(tmp_path, name):
    columns = {"=user": np.array(["=1+1", "-5", "u"], dtype=object), "score": [-1.0, 2.0, 3.0]}
    write_table(tmp_path / name, columns, escape_formulas=False)
    table = read_table(tmp_path / name)
    assert table.columns["=user"].tolist() == ["=1+1", "-5", "u"]
    write_table(tmp_path / name, columns, escape_formulas=True)
    table = read_table(tmp_path / name)
    assert table.columns["'=user"].tolist() == ["'=1+1", "-5", "u"]
    assert list(map(float, table.columns["score"])) == [-1.0, 2.0, 3.0]


def test_a_table_for_no_one_in_particular_has_a_warning(tmp_path):
    columns = {"user": np.array(["u", "=\x1b[31m"], dtype=object)}
    with pytest.warns(TribitWarning, match="spreadsheet runs as formulas") as caught:
        write_table(tmp_path / "o.csv", columns)
    assert str(caught[0].message).isprintable()
    with pytest.warns(TribitWarning, match="'=user'"):
        write_table(tmp_path / "o.tsv", {"=user": ["u"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_table(tmp_path / "o.csv", columns, escape_formulas=False)
        write_table(tmp_path / "o.csv", columns, escape_formulas=True)
        write_table(tmp_path / "o.parquet", columns)
        write_table(tmp_path / "o.csv", {"user": ["u"], "score": [-1.5]})
