"""Rows with few columns left have shorter lists in every face, without padding."""

import csv
import json
import re
import warnings

import numpy as np
import pytest

from service_parts import client_of
from tribit import BinaryMatrixCompletion, Observations, Recommender, TribitWarning
from tribit.cli import main
from tribit.report import make_report

ROWS, COLUMNS = [f"u{i}" for i in range(30)], [f"i{j}" for j in range(12)]
#: Numbers of columns that the first rows have not seen.
LEFT = {"u0": 2, "u1": 0, "u2": 7}


@pytest.fixture(scope="module")
def recommender():
    draws = np.random.default_rng(2)
    labels = draws.choice([-1, 0, 1], (30, 12))
    for row, left in enumerate(LEFT.values()):
        labels[row] = np.where(np.arange(12) < left, 0, draws.choice([-1, 1], 12))
    i, j = np.nonzero(labels)
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    seen = Observations(i, j, labels[i, j], labels.shape, ROWS, COLUMNS)
    return Recommender(model, random_state=0).fit(seen)


@pytest.fixture(scope="module")
def path(recommender, tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "model.tribit"
    recommender.save(path)
    return path


@pytest.mark.parametrize("options", [{}, {"level": None}, {"ranker": False}])
def test_python(recommender, options):
    found = recommender.recommend(list(LEFT), 10, **options)
    assert found.lengths.tolist() == list(LEFT.values())
    assert [each.tolist() for each in found.columns][1] == []
    frame = found.to_frame()
    assert frame["row"].value_counts().to_dict() == {"u0": 2, "u2": 7}
    assert not frame.isna().any().any()
    assert np.isfinite(frame.select_dtypes("number").to_numpy()).all()
    assert len(found.to_dict()) == 9
    texts = repr(found), found._repr_html_(), json.dumps(found.to_dict())
    assert not any(word in text for text in texts for word in ("None", "nan", "inf<", "NaN"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": ["u1"]}, "The row 'u1' has entries in every column: the list is empty"),
        ({"rows": ["u1", "u0"], "level": None}, "The row 'u1' has entries in every column: the"),
        ({"rows": ["u1"], "among": ["i3"]}, "in every column of among: the list is empty"),
        ({"rows": ["u0", "u1"], "among": ["i9"]}, "2 rows, such as 'u0', have entries in every"),
    ],
)
def test_an_empty_list_has_a_warning(recommender, options, words):
    with pytest.warns(TribitWarning, match=words + r".* \(exclude_seen=False lists"):
        recommender.recommend(**options)


def test_lists_with_columns_have_no_warning(recommender):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TribitWarning)
        assert recommender.recommend(["u1"], exclude_seen=False).lengths.tolist() == [10]
        assert recommender.recommend().lengths.min() == 0  # nobody was asked for by id


def test_the_command_line(path, tmp_path, capsys):
    out = tmp_path / "lists.csv"
    rows = [word for row in LEFT for word in ("--for", row)]
    with pytest.raises(SystemExit) as stop:
        main(["recommend", str(path), *rows, "-o", str(out)])
    assert not stop.value.code
    capsys.readouterr()
    with out.open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [each["row"] for each in records] == ["u0"] * 2 + ["u2"] * 7
    assert all(value not in ("", "nan", "-inf") for each in records for value in each.values())


def test_the_service(path):
    with client_of(path) as client:
        for level in (None, 0.9):
            body = {"rows": list(LEFT), "n": 10, "level": level}
            lists = client.post("/recommend", json=body).json()["lists"]
            assert [len(each["items"]) for each in lists] == list(LEFT.values())
            assert all(None not in item.values() for each in lists for item in each["items"])


def test_a_report_shows_short_lists(recommender):
    report = make_report(recommender)
    cells = re.findall(r"<td[^>]*>\s*([^<]*?)\s*</td>", report.html)
    assert not {"nan", "None", "-inf", "inf", "NaN"} & set(cells)
    assert any(len(each["columns"]) < 5 for each in report.facts["examples"])
