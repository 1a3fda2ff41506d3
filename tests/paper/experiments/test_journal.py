"""What a finished task leaves on disk, and which files a run goes on with."""

import json
import re

import numpy as np
import pytest

from tribit import InvalidInputError
from tribit.paper.experiments.journal import Journal, check_header, read_journal

HEADER = {
    "study": "fig1",
    "tribit": "0.1.0",
    "numpy": "2.0.0",
    "trials": 2,
    "seed": 0,
    "step": None,
    "rho": 0.85,
    "mixtures": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
}
ROWS = {
    "0 first": [{"trial": 0, "way": "whole", "error": 0.1 + 0.2, "at_rest": True}],
    "0 second": [{"trial": 0, "error": 1 / 3, "g_pn": None}, {"trial": 0, "error": 2}],
    "1 first": [{"trial": 1, "way": 'ε = "1"\n', "error": 1e-300}],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal" / "fig1.jsonl"


def fill(path, header=HEADER, rows=ROWS):
    with Journal(path, header) as journal:
        for key, several in rows.items():
            if key not in journal.rows:
                journal.add(key, several)
    return path.read_bytes()


def refused(path, header=HEADER):
    """Return the sentence with which a journal is refused, its file being left as it is."""
    before = path.read_bytes()
    with pytest.raises(InvalidInputError) as caught, Journal(path, header):
        pytest.fail("it was opened")
    assert path.read_bytes() == before
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(path) in message
    assert read_journal(path, header) is None
    return message


# Reading back


def test_rows_are_kept_under_their_keys_in_order(path):
    fill(path)
    with Journal(path, HEADER) as journal:
        assert journal.rows == ROWS
        assert list(journal.rows) == list(ROWS)
    assert read_journal(path, HEADER) == ROWS


def test_the_file_is_a_header_and_a_line_for_each_task(path):
    lines = [json.loads(line) for line in fill(path).splitlines()]
    assert lines == [HEADER, *({"key": key, "rows": rows} for key, rows in ROWS.items())]


def test_floats_are_read_back_to_the_bit(path):
    draws = np.random.default_rng(0).integers(0, 2**64, 2000, dtype=np.uint64)
    anything = draws.view(np.float64)
    edges = [0.0, -0.0, 5e-324, np.finfo(float).max, 0.1 + 0.2, np.nextafter(1.0, 2.0)]
    values = np.concatenate([edges, anything[np.isfinite(anything)]]).tolist()
    with Journal(path, HEADER) as journal:
        journal.add("floats", [{"value": value} for value in values])
        before = journal.rows
    with Journal(path, HEADER) as journal:
        for rows in (journal.rows, before):
            found = np.array([row["value"] for row in rows["floats"]])
            np.testing.assert_array_equal(found.view(np.uint64), np.array(values).view(np.uint64))


def test_a_run_has_in_hand_what_a_resumed_one_would_read(path):
    given = [{"mixture": (1.0, 0.0, 0.0), "error": 0.5}]
    with Journal(path, HEADER) as journal:
        journal.add("task", given)
        held = journal.rows
        given[0]["error"] = 9.0
    assert held == read_journal(path, HEADER) == {"task": [{"mixture": [1, 0, 0], "error": 0.5}]}


def test_a_line_is_on_disk_as_soon_as_it_is_added(path):
    with Journal(path, HEADER) as journal:
        assert path.read_bytes() == json.dumps(HEADER).encode() + b"\n"
        for count, (key, rows) in enumerate(ROWS.items(), start=1):
            journal.add(key, rows)
            assert len(read_journal(path, HEADER)) == count


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_no_word_for_is_refused(path, value):
    before = fill(path)
    with Journal(path, HEADER) as journal:
        with pytest.raises(ValueError, match="JSON"):
            journal.add("2 first", [{"error": value}])
        assert path.read_bytes() == before
        assert journal.rows == ROWS
        journal.add("2 first", [{"error": 1.0}])
    assert read_journal(path, HEADER) == ROWS | {"2 first": [{"error": 1.0}]}


# Files of something else


@pytest.mark.parametrize(
    ("name", "value", "found", "wanted"),
    [
        ("trials", 10, "2", "10"),
        ("seed", 1, "0", "1"),
        ("step", 0.001, "null", "0.001"),
        ("rho", 0.8500000000000001, "0.85", "0.8500000000000001"),
        ("study", "fig2", '"fig1"', '"fig2"'),
        ("tribit", "0.2.0", '"0.1.0"', '"0.2.0"'),
        ("numpy", "2.0.1", '"2.0.0"', '"2.0.1"'),
        ("mixtures", [[1, 0, 0]], "[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]", "[[1, 0, 0]]"),
        ("size", 100, "null", "100"),
    ],
)
def test_another_header_is_refused_with_both_values(path, name, value, found, wanted):
    fill(path)
    message = refused(path, HEADER | {name: value})
    assert f"results with {name} = {found}, and this run has {name} = {wanted};" in message


def test_a_parameter_that_only_the_file_has_is_refused(path):
    fill(path)
    less = {name: value for name, value in HEADER.items() if name != "rho"}
    assert "rho = 0.85, and this run has rho = null" in refused(path, less)


def test_the_first_difference_is_named(path):
    fill(path)
    message = refused(path, HEADER | {"seed": 5, "rho": 0.5, "trials": 3})
    assert "trials = 2" in message
    assert "seed" not in message


def test_the_same_values_in_other_words_are_the_same(path):
    fill(path)
    same = HEADER | {"mixtures": [(1, 0, 0), (0, 1, 0)], "seed": 0.0}
    with Journal(path, same) as journal:
        assert journal.rows == ROWS


@pytest.mark.parametrize(
    "content",
    [
        b"trial,error\n0,0.5\n",
        b"[1, 2]\n",
        b'{"key": "0 first", "rows": []}\n',
        b"null\n",
        b"\n",
        b"\xff\xfe\x00\n\x00",
        b"\x89PNG\r\n\x1a\n",
    ],
)
def test_a_file_that_is_no_journal_is_refused(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert "is not a journal that tribit wrote" in refused(path)


@pytest.mark.parametrize("content", [b"my notes, with no newline", b"\x89PNG", b"[1, 2]"])
def test_a_file_that_is_no_journal_is_refused_without_a_newline_too(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert "is not a journal that tribit wrote" in refused(path)


@pytest.mark.parametrize("line", [b"\x00\x00\x00\x00", b'{"key": "2 fi', b'{"rows": []}', b"7"])
def test_a_damaged_line_inside_is_refused(path, line):
    whole = fill(path)
    path.write_bytes(whole + line + b"\n" + b'{"key": "3 first", "rows": []}\n')
    assert "journal" in refused(path)


# What a kill leaves


def test_a_file_cut_anywhere_is_completed_to_the_same_bytes(path):
    whole = fill(path)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    around = {end + off for end in ends for off in (-2, -1, 0, 1, 2)} | {0, 1, 20, 333}
    for cut in sorted(place for place in around if place <= len(whole)):
        path.write_bytes(whole[:cut])
        check_header(path, HEADER)
        finished = max(sum(end <= cut for end in ends) - 1, 0)
        assert len(read_journal(path, HEADER)) == finished
        assert path.read_bytes() == whole[:cut]
        with Journal(path, HEADER) as journal:
            assert journal.rows == dict(list(ROWS.items())[:finished])
        assert fill(path) == whole


def test_a_torn_line_is_gone_before_another_is_added(path):
    whole = fill(path)
    path.write_bytes(whole + b'{"key": "1 second", "rows": [{"tri')
    with Journal(path, HEADER) as journal:
        assert journal.rows == ROWS
        assert path.read_bytes() == whole
        journal.add("2 first", [])
    assert read_journal(path, HEADER) == ROWS | {"2 first": []}


def test_no_file_is_no_results(path):
    check_header(path, HEADER)
    assert read_journal(path, HEADER) is None
    assert not path.parent.exists()


def test_opening_makes_the_folder_and_the_header(tmp_path):
    path = tmp_path / "a" / "b" / "fig1.jsonl"
    with Journal(path, HEADER) as journal:
        assert journal.rows == {}
    assert read_journal(path, HEADER) == {}


# Two runs at once


def test_a_journal_in_use_is_refused(path):
    with Journal(path, HEADER) as journal:
        journal.add("0 first", ROWS["0 first"])
        before = path.read_bytes()
        with (
            pytest.raises(InvalidInputError, match="is in use by another run") as caught,
            Journal(path, HEADER),
        ):
            pytest.fail("it was opened twice")
        assert re.fullmatch(r"[^\n]+\.", str(caught.value))
        assert path.read_bytes() == before
        journal.add("0 second", ROWS["0 second"])
    with Journal(path, HEADER) as journal:
        assert list(journal.rows) == ["0 first", "0 second"]
