"""``tribit report``: a page from a bundle, with and without a table of test entries."""

import contextlib
import re
import shutil

import pytest

from report_models import Parsed, draw
from tribit import Recommender
from tribit.cli import main
from tribit.report import make_report

FIT = [
    "fit",
    "ratings.csv",
    "-o",
    "model.tribit",
    "--rank",
    "2",
    "--l2",
    "1",
    "--implicit-features",
    "no",
    "-q",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a bundle and the tables that are asked about it, and the entries of the test."""
    folder = tmp_path_factory.mktemp("fitted")
    train, test = draw((30, 20)).split(0.2, random_state=10)
    for name, part in (("ratings.csv", train), ("test.csv", test)):
        lines = [
            f"{part.row_ids[i]},{part.column_ids[j]},{label}"
            for i, j, label in zip(part.rows, part.columns, part.labels, strict=True)
        ]
        (folder / name).write_text("\n".join(["who,what,opinion", *lines]) + "\n")
    (folder / "strangers.csv").write_text((folder / "test.csv").read_text() + "nobody,film 1,1\n")
    with contextlib.chdir(folder), pytest.raises(SystemExit) as ended:
        main(FIT)
    assert not ended.value.code
    return folder, test


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    """The entries of the test, in a copy of that folder."""
    shutil.copytree(folder[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return folder[1]


def test_a_page_of_a_test_is_the_library_s(run, here, tmp_path):
    code, out, err = run("report", "model.tribit", "--test", "test.csv", "-o", "page.html")
    assert (code, err) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    expected = make_report(Recommender.load("model.tribit"), here, model_file="model.tribit")
    assert page == expected.html
    assert re.search(rf"evaluated on +{len(here)} entries of the test set\n", out)
    size = len(page.encode()) / 1000
    assert f"page.html ({size:.0f} kB)" in out


def test_without_a_test_it_holds_out_and_says_so(run, here, tmp_path):
    code, out, _ = run("report", "model.tribit", "--title", "Films & <friends>")
    assert code == 0
    assert "entries held out for the report" in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>Films &amp; &lt;friends&gt;</h1>" in page
    assert "No test set was given" in Parsed(page).words
    run("report", "model.tribit", "--random-state", "3", "-o", "other.html")
    assert (tmp_path / "other.html").read_text(encoding="utf-8") != page


def test_against_a_model_or_a_second_test_set(run, here, tmp_path):
    assert run(*FIT[:2], "-o", "other.tribit", *FIT[4:], "--rank", "1")[0] == 0
    lines = (tmp_path / "test.csv").read_text().splitlines()
    (tmp_path / "later.csv").write_text("\n".join([lines[0], *lines[1::2]]))
    for other, said in (
        ("other.tribit", "that both models know"),
        ("later.csv", "second test set"),
    ):
        code, out, err = run("report", "model.tribit", "--test", "test.csv", "--against", other)
        assert (code, err) == (0, "")
        compared = re.search(r"comparison +(.*)\n", out)[1]
        page = Parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
        assert said in compared
        assert compared in page.words
        assert ("Comparison with other.tribit" in page.words) == (other == "other.tribit")


def test_strangers_are_answered_refused_or_left_out(run, here, tmp_path):
    code, out, err = run("report", "model.tribit", "--test", "strangers.csv")
    assert code == 0
    assert f"1 of the {len(here) + 1} test entries" in err
    assert f"{len(here) + 1} entries of the test set; 1 with unknown ids\n" in out
    page = Parsed((tmp_path / "report.html").read_text(encoding="utf-8")).words
    assert "1 of them have an id that the model was not fitted on" in page
    code, _, err = run("report", "model.tribit", "--test", "strangers.csv", "--unknown", "error")
    assert code == 2
    assert "--unknown skip" in err
    code, out, _ = run("report", "model.tribit", "--test", "strangers.csv", "--unknown", "skip")
    assert code == 0
    assert f"{len(here)} entries of the test set (1 with unknown ids left out)" in out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("report model.tribit --test ratings.csv", "test entries were also training entries"),
        ("report model.tribit --against test.csv -o test.csv", "is the file that is read"),
        ("report model.tribit --against nothing.tribit", "no model file 'nothing.tribit'"),
        ("report model.tribit --against bare.tribit", "neither model was fitted on"),
        ("report model.tribit -o model.tribit", "is the file that is read"),
        ("report model.tribit --test test.csv -o test.csv", "is the file that is read"),
        ("report model.tribit -o nowhere/page.html", "directory does not exist"),
        (
            "report bare.tribit",
            r"\(--test FILE\), or fit it with its entries \(without --no-seen\)",
        ),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(run, here, words, match):
    if "bare.tribit" in words:
        assert run(*FIT[:2], "-o", "bare.tribit", *FIT[4:], "--no-seen")[0] == 0
    code, _, err = run(*words.split())
    assert code == 2
    assert re.fullmatch(r"Error: [^\n]+\.\n", err), err
    assert re.search(match, err), err
