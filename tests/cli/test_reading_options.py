"""``tribit fit`` on tables as people have them: options of reading, and what it says about its guesses."""

import gzip
import io
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from tribit import load
from tribit.cli.actions import fit_file
from tribit.cli.common import print_facts

PAIRS = list(itertools.product(range(6), range(5)))
LIKED = {(user, item): (user + item) % 2 == 0 for user, item in PAIRS if (user * item) % 3 != 1}
OPTIONS = ["--rank", "1", "--l2", "0.3", "--quiet"]


def table(like, dislike, delimiter=",", header="user,item,opinion"):
    lines = [
        delimiter.join((f"u{user}", f"i{item}", like if liked else dislike))
        for (user, item), liked in LIKED.items()
    ]
    return (
        "\n".join([header.replace(",", delimiter), *lines]) + "\n" if header else "\n".join(lines)
    )


def wide():
    rows = []
    for user in range(6):
        cells = [{True: "1", False: "-1", None: ""}[LIKED.get((user, item))] for item in range(5)]
        rows.append(",".join([f"u{user}", *cells]))
    return "\n".join(["name,i0,i1,i2,i3,i4", *rows])


def matrix():
    rows, columns = zip(*LIKED, strict=True)
    labels = [1 if liked else -1 for liked in LIKED.values()]
    return sp.csr_array((labels, (rows, columns)), shape=(6, 5))


def npz():
    file = io.BytesIO()
    sp.save_npz(file, matrix())
    return file.getvalue()


def mtx():
    file = io.BytesIO()
    scipy.io.mmwrite(file, matrix())
    return gzip.compress(file.getvalue())


def json_lines():
    return "".join(
        f'{{"user": "u{user}", "item": "i{item}", "opinion": {str(liked).lower()}}}\n'
        for (user, item), liked in LIKED.items()
    )


NAMES = ["--row", "user", "--column", "item", "--value", "opinion"]
LISTED = "0 is a dislike, where it is listed (guessed)."
ORDER = "row ids are in column 'user', column ids in 'item', values in 'opinion' (in this order)."
CASES = {
    "plain": ("r.csv", table("1", "-1"), NAMES, []),
    "semicolons": ("r.csv", table("1", "-1", ";"), NAMES, ["the delimiter is ; (guessed)."]),
    "told": ("r.csv", table("1", "-1", "|"), [*NAMES, "--delimiter", "|"], []),
    "words": ("r.csv", table("Yes", "no"), NAMES, ["yes is a like and no a dislike (guessed)."]),
    "own words": (
        "r.csv",
        table("super", "meh"),
        [*NAMES, "--like", "super, Super", "--dislike", "meh"],
        [],
    ),
    "signs": ("r.csv", table("+", "-"), [*NAMES, "--like", "+", "--dislike", "-"], []),
    "zeros": (
        "r.csv",
        table("1", "0"),
        NAMES,
        [LISTED],
    ),
    "commas": (
        "r.csv",
        table("3,5", "0,5", ";"),
        [*NAMES, "--like-at", "2.5", "--decimal", ","],
        ["the delimiter is ; (guessed)."],
    ),
    "utf-16": ("r.csv", table("1", "-1").encode("utf-16"), NAMES, []),
    "latin-1": (
        "r.csv",
        table("café", "thé").encode("latin-1"),
        [*NAMES, "--like", "café", "--dislike", "thé", "--encoding", "latin-1"],
        [],
    ),
    "gaps": (
        "r.csv",
        table("1", "-1") + "u1,,1\nu2,i1,NA\n",
        [*NAMES, "--missing", "skip"],
        ["2 records were left out, without an id or a value."],
    ),
    "repeated": ("r.csv", table("1", "-1") + table("1", "-1", header=""), NAMES, []),
    "no names": ("r.csv", table("1", "-1"), [], [ORDER]),
    "wide": ("r.csv", wide(), ["--wide"], []),
    "json lines": ("r.jsonl", json_lines(), NAMES, [LISTED]),
    "named": ("r.txt", json_lines(), [*NAMES, "--format", "ndjson", "--like", "true", "--dislike", "false"], []),
    "npz": ("r.npz", npz(), [], ["rows and columns are named by their positions, from 0."]),
    "mtx": ("r.mtx.gz", mtx(), [], ["rows and columns are named by their positions, from 0."]),
}  # fmt: skip


@pytest.fixture(scope="module")
def probabilities(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "r.csv"
    path.write_text(table("1", "-1"))
    names = dict(zip(("row", "column", "value"), NAMES[1::2], strict=True))
    model = fit_file(path, **names, rank=1, l2=0.3, random_state=0, n_jobs=1).model_
    return model.complete()[np.argsort(model.row_ids_)][:, np.argsort(model.column_ids_)]


@pytest.mark.parametrize("case", CASES)
def test_every_way_to_write_the_table_gives_the_same_model(run, tmp_path, probabilities, case):
    name, content, options, notes = CASES[case]
    path, out = tmp_path / name, tmp_path / "model"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, printed, err = run("fit", path, "-o", out, *options, *OPTIONS)
    assert code == 0, err
    assert err.splitlines() == [f"Note: {name}: {note}" for note in notes]
    assert re.search(r"data +6 \w+ and 5 \w+;", printed)
    model = load(out)
    found = model.complete()[np.argsort(model.row_ids_)][:, np.argsort(model.column_ids_)]
    # The order of rows and columns differs, and with it the start.
    np.testing.assert_allclose(found, probabilities, atol=5e-3)


def test_standard_input(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table("yes", "no").encode())))
    code, printed, err = run("fit", "-", "-o", tmp_path / "model", *NAMES, *OPTIONS)
    assert code == 0
    assert err == "Note: standard input: yes is a like and no a dislike (guessed).\n"
    assert re.search(r"data +6 \w+ and 5 \w+;", printed)


def test_the_model_keeps_the_rules(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(table("yes", "no", ";"))
    bundle = fit_file(path, missing="skip", rank=1, l2=0.3, random_state=0)
    rules = bundle.reading_
    assert (rules.row, rules.column, rules.value) == ("user", "item", "opinion")
    assert (rules.like, rules.dislike, rules.missing) == (("yes",), ("no",), "skip")
    assert len(rules.notes) == 3
    later = tmp_path / "later.tsv"
    later.write_text("user\titem\topinion\nu1\ti9\tno\n")
    assert rules.records(later).labels.tolist() == [-1]


@pytest.mark.parametrize(
    ("content", "options", "match"),
    [
        (table("good", "bad"), NAMES, r"are words: good \(\d+\), bad \(\d+\); .* with --like and --dislike"),
        (table("5", "2"), NAMES, "if these are ratings, pass --like-at."),
        (table("1", "NA"), NAMES, "'NA' in column 'opinion' is missing; .*with --missing skip."),
        (table("1,000", "3", ";"), NAMES, "if , is its decimal mark, pass --decimal ,."),
        (table("é", "x").encode("latin-1"), NAMES, r"give its --encoding \(latin-1 or cp1252, say\)"),
        ("a,b,c,d\n1,2,3,4\n", [], "r.csv has the columns a, b, c, d; .* with --row and --column, and .* --value."),
        ("1,2,5,88\n1,3,4,89\n", [], "r.csv has no header, and the first record is 1, 2, 5, 88; .* by numbers from 0"),
        (wide(), ["--wide", "--column", "i1"], "--column, --value, --weight and --time are for tables with an"),
        (table("1", "-1"), [*NAMES, "--like", "1", "--like-at", "1"], "--like-at is for ratings, --like and"),
    ],
)  # fmt: skip
def test_what_cannot_be_guessed_is_one_line(run, tmp_path, content, options, match):
    path = tmp_path / "r.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, printed, err = run("fit", path, "-o", tmp_path / "model", *options, *OPTIONS)
    assert (code, printed) == (2, "")
    lines = err.splitlines()
    assert lines[-1].startswith("Error: ")
    assert all(line.startswith("Note: ") for line in lines[:-1])
    assert re.search(match, lines[-1]), err


@pytest.mark.parametrize("words", [["--gammas", "0,1"], ["--gammas=0,1,0,0"]])
def test_numbers_in_one_word_are_counted(run, tmp_path, words):
    path = tmp_path / "r.csv"
    path.write_text(table("1", "-1"))
    code, _, err = run("fit", path, "-o", tmp_path / "model", *NAMES, *words)
    assert code == 2
    assert "--gammas takes 3 numbers, such as 1,0,0" in err


def test_facts_make_way_for_a_table_on_standard_output(capsys):
    print_facts({"pairs": "3"}, Path("-"))
    assert capsys.readouterr() == ("", "pairs  3\n")
    print_facts({"pairs": "3"}, Path("scores.csv"))
    assert capsys.readouterr() == ("pairs  3\n", "")


def test_split_writes_a_training_and_a_test_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"u{k % 7},i{k},{k % 5 + 1}" for k in range(50)]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,stars", *lines]) + "\n")
    command = ["split", "ratings.csv", "--test", "0.2", "-o", "train.csv", "test.csv"]
    code, out, err = run(*command)
    assert code == 0
    assert out == "training file  train.csv: 40 records\ntest file      test.csv: 10 records\n"
    assert "row ids are in column 'user'" in err
    parts = [(tmp_path / name).read_text().splitlines() for name in ("train.csv", "test.csv")]
    assert sorted(parts[0][1:] + parts[1][1:]) == sorted(lines)
    run(*command, "--random-state", 1)
    assert (tmp_path / "test.csv").read_text().splitlines() != parts[1]
