"""The figures of the README are those that ``make bench-accuracy`` has printed into the manual."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.])\d*\.\d+|(?<![\w.])\d+(?![\w.])")


def table_rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def numbers(cell):
    return [float(each) for each in NUMBER.findall(cell)]


def measured(section, row, column):
    """Return the first number of a cell of the manual's table."""
    text = (ROOT / "docs/measured/accuracy.md").read_text(encoding="utf-8")
    part = next(each for each in text.split("###") if each.strip().startswith(section))
    rows = table_rows(part)
    cells = next(each for each in rows if each[0] == row or each[1] == row)
    return numbers(cells[rows[0].index(column)])[0]


#: The opening of a row of the README, and where its figures stand in the manual, in the order of the row.
CLAIMS = {
    "MovieLens-100k, held-out ratings": [
        ("ML-100k, signs", "error rate", "ours"),
        ("ML-100k, signs", "AUC", "ours"),
        ("ML-100k, signs", "CPU seconds, search and fit", "ours"),
    ],
    "MovieLens-100k, top-10 lists": [
        ("Top-10 lists", "0.6", "NDCG@10"),
        ("Top-10 lists", "0.6", "dislikes per like"),
    ],
    "Coat, random items": [
        ("Coat", "target='all'", "error"),
        ("Coat", "target='all'", "log-loss"),
    ],
    "Experiment 2 of the paper": [("Experiment 2", "relative error", "ours")],
}


@pytest.mark.parametrize("opening", CLAIMS)
def test_the_readme_prints_what_was_measured(opening):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(each for each in table_rows(readme) if each[0].startswith(opening))
    said = NUMBER.findall(row[2])
    found = [measured(*place) for place in CLAIMS[opening]]
    assert len(said) == len(found)
    for words, value in zip(said, found, strict=True):
        digits = len(words.partition(".")[2])
        assert abs(float(words) - value) <= 0.5000001 * 10**-digits


def test_every_row_of_the_readme_is_checked():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [each[0] for each in table_rows(readme) if len(each) == 4][2:]
    assert rows
    for row in rows:
        assert any(row.startswith(opening) for opening in CLAIMS), row
