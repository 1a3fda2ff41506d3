"""The pages of the manual on the reproduction: the table of verdicts is theirs, and a fit of today is one of theirs."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tribit.paper.experiments.claims import markdown_table
from tribit.paper.experiments.settings import PN
from tribit.paper.experiments.synthetic import (
    EXPERIMENT_1,
    EXPERIMENT_2,
    TUNED,
    Trial,
    fit_paper,
    fit_tuned,
)
from tribit.paper.experiments.synthetic_exhibits import WAYS

PAGES = Path(__file__).parents[3] / "docs" / "reproduced"
HALF = (0.0, 0.5, 0.5)
#: Deviations that a single simulated table may be away from the mean of ten.
MAX_DEVIATIONS = 4.0


@pytest.fixture
def verdicts(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    return import_module("benchmarks.verdicts")


def test_the_first_table_is_that_of_the_pages(verdicts):
    table = markdown_table(("", "the paper", *verdicts.PROTOCOLS), verdicts.lines())
    assert (PAGES / "verdicts.md").read_text(encoding="utf-8") == f"{table}\n"
    assert table.count("\n") < 20  # one screen
    manual = (PAGES.parent / "reproduction.md").read_text(encoding="utf-8")
    assert manual.index("reproduced/verdicts.md") < manual.index("\n## ")


def test_a_verdict_of_few_draws_says_so(verdicts):
    few = verdicts.Verdict("solved", "holds", "-0.002", "-7.60", "0.00572", 3)
    assert str(few) == "holds (3 draws): -0.002, d -7.60, p 0.00572"
    many = verdicts.Verdict("printed", "holds", "-0.402", "-11.83", "3.45e-11", 10)
    assert str(many) == "**holds**: -0.402, d -11.83, p 3.45e-11"


def printed(page, row, column):
    """Return the mean and the deviation of a cell of the table of numbers."""
    section = (PAGES / page).read_text(encoding="utf-8").split("### Numbers")[1]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    cells = next(line for line in lines if line[0] == row)
    mean, deviation = cells[1 + column].split(" ± ")
    return float(mean), float(re.match(r"[\d.]+", deviation)[0])


@pytest.mark.parametrize(
    ("page", "fit"), [("fig3-t.md", fit_paper), ("tuned/fig3-t.md", fit_tuned)]
)
def test_errors_of_the_first_table_come_out_again(page, fit):
    text = (PAGES / page).read_text(encoding="utf-8").split("Size of rounding effects")[1]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:2] == "| "]
    printed = {
        way: tuple(map(float, errors))
        for way, mixture, *errors in lines
        if mixture == "(0, 0.5, 0.5)"
    }
    rows = fit(Trial(EXPERIMENT_2, 0, 0, HALF), EXPERIMENT_2.steps)
    assert {WAYS[row["way"]] for row in rows} == set(printed)
    for row in rows:
        error, nudged = printed[WAYS[row["way"]]]
        rounding = 1e-3 + 3 * abs(nudged - error)
        assert abs(row["relative_error"] - error) <= rounding, row["way"]


@pytest.mark.parametrize(
    ("page", "row", "mixture", "fit"),
    [
        ("fig1.md", "0.5", HALF, fit_paper),
        ("fig2.md", "0", PN, fit_paper),
        ("tuned/fig1.md", "0.5", HALF, fit_tuned),
        ("tuned/fig2.md", "0", PN, fit_tuned),
    ],
)
def test_a_fit_of_today_has_an_error_of_the_page(page, row, mixture, fit):
    rows = fit(Trial(EXPERIMENT_1, 0, 0, mixture), EXPERIMENT_1.steps)
    ways = [each["way"] for each in rows]
    assert len(rows) == 2
    assert ways[0] in ("whole", TUNED)
    for column, each in enumerate(rows):
        mean, deviation = printed(page, row, column)
        # Deviations are printed to three digits, and may be smaller than that.
        allowed = MAX_DEVIATIONS * max(deviation, 1e-3)
        assert abs(each["relative_error"] - mean) <= allowed, each["way"]
