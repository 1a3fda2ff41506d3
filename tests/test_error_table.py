"""The manual's table of errors, made from the code: whole sentences, and a remedy in nearly all."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("docutils", reason="the manual's table of errors is made with docutils")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import error_table  # noqa: E402

PAGE = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
PARTS = [
    part
    for line in PAGE.splitlines()
    if line.startswith(".. error-table::")
    for part in line.split()[2:]
]
#: Sentences whose cause says already what to do.
MOST_WITHOUT_REMEDY = 0.1


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return the sentences of a module with this text."""

    def of(text):
        (tmp_path / "one.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(error_table, "SOURCE", tmp_path)
        return error_table.sentences("one.py")

    return of


@pytest.mark.parametrize(
    ("raised", "cause", "remedy"),
    [
        ('f"{name} holds {n} ids; pass text."', "… holds … ids", "pass text."),
        (
            "f\"{parameter('rank')} must be at least 1; got {n}.\"",
            "rank must be at least 1",
            "got ….",
        ),
        (
            "f\"{parameter('device', 'cuda')} needs a GPU: use \" \"another.\"",
            "device='cuda' needs a GPU",
            "use another.",
        ),
        ('f"The line {place(3)} has no end."', "The line … has no end.", ""),
        (
            "f\"{either('fit', '--fit')} was first: one; two; three.\"",
            "fit was first: one",
            "two; three.",
        ),
    ],
)
def test_a_sentence_by_hand(made, raised, cause, remedy):
    assert made(f"raise InvalidInputError({raised})") == [(cause, remedy, "InvalidInputError")]


def test_what_is_no_sentence_of_ours_is_left_out(made):
    assert made('raise ValueError("nobody knows this one")\nraise InvalidInputError(text)') == []


def test_every_part_that_raises_errors_is_on_the_page():
    parts = [path.name for path in error_table.SOURCE.iterdir() if error_table.sentences(path.name)]
    assert sorted(PARTS) == sorted(parts)


@pytest.mark.parametrize("part", PARTS)
def test_errors_are_whole_sentences(part):
    for cause, remedy, _ in error_table.sentences(part):
        assert (remedy or cause).endswith((".", "?", "…", ")")), (cause, remedy)


def test_nearly_every_error_has_a_remedy():
    found = [each for part in PARTS for each in error_table.sentences(part)]
    without = [cause for cause, remedy, _ in found if not remedy]
    assert len(found) > 300
    assert len(without) <= MOST_WITHOUT_REMEDY * len(found), without
