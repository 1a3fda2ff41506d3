"""The command line at its edges: outputs over inputs, limits, formulas, odd words, a full device."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asked import predict_file
from tribit.cli import main
from tribit.cli.actions import fit_file
from tribit.cli.common import size

NAMES = {"row": "user", "column": "item", "value": "rating"}
FIXED = {"rank": 1, "l2": 1.0, "l2_intercept": 1.0, "search": False}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with ratings of 6 items, one of them a formula, and a model of them."""
    folder = tmp_path_factory.mktemp("edges")
    items = ["=1+1", *(f"i{item}" for item in range(5))]
    pairs = [(user, item) for user in range(8) for item in range(6) if (user + item) % 3]
    lines = [f"u{user},{items[item]},{5 if (user + item) % 2 else 1}" for user, item in pairs]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    fit_file(folder / "ratings.csv", **NAMES, like_at=4, **FIXED).save(folder / "model.csv")
    return folder


@pytest.fixture
def model(fitted, tmp_path):
    path = tmp_path / "model.csv"
    path.write_bytes((fitted / "model.csv").read_bytes())
    return path


@pytest.fixture
def ratings(fitted, tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes((fitted / "ratings.csv").read_bytes())
    return path


def assert_refused(result, match):
    code, out, err = result
    assert code == 2
    assert not out
    assert re.fullmatch(r"Error: [^\n]+\.\n", err), err
    assert err[:-1].isprintable()
    assert len(err) < 1000
    assert re.search(match, err), err


@pytest.mark.parametrize("command", ["predict", "recommend"])
@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
def test_no_command_writes_over_what_it_reads(run, model, ratings, tmp_path, command, link):
    before = model.read_bytes(), ratings.read_bytes()
    for source in (model, ratings):
        out = source
        if link is not None:
            out = tmp_path / f"other-{source.name}"
            getattr(out, link)(source)
        assert_refused(run(command, model, ratings, "-o", out), "is the file that is read")
    assert (model.read_bytes(), ratings.read_bytes()) == before


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "ratings.csv", "-o", "o.csv", "--row", "user", "--column", "item"],
        ["predict", "model.csv", "ratings.csv", "-o", "o.csv"],
        ["evaluate", "model.csv", "ratings.csv"],
        ["recommend", "model.csv", "ratings.csv", "-o", "o.csv"],
    ],
)
def test_every_command_that_reads_a_table_has_a_largest_size(
    run, model, ratings, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    match = r"ratings\.csv holds more than 100 bytes when unpacked; .* raise the limit \(in bytes\) with --max-size"
    assert_refused(run(*command, "--max-size", "100"), match)
    assert not Path("o.csv").exists()
    if command[0] != "fit":
        assert run(*command, "--max-size", "1M")[0] == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500M", 500 * 2**20), ("4g", 2**32), ("2K", 2048), ("1TiB", 2**40), (" 7B ", 7)],
)
def test_sizes(text, value):
    assert size(text) == value


@pytest.mark.parametrize("text", ["0", "", "M", "-1", "1.5G", "4X", "9" * 19, "1e9", "\x1b[31m"])
def test_a_wrong_size_is_one_line(run, model, ratings, text):
    assert_refused(run("evaluate", model, ratings, "--max-size", text), "is no size in bytes")


@pytest.mark.parametrize("count", ["1000000000", "99999999999999999999"])
def test_a_list_is_no_longer_than_the_columns(run, model, ratings, tmp_path, count):
    out = tmp_path / "lists.csv"
    code, _, _ = run("recommend", model, ratings, "-o", out, "-n", count)
    assert code == 0
    assert run("recommend", model, ratings, "-o", tmp_path / "all.csv", "-n", 6)[0] == 0
    assert out.read_text() == (tmp_path / "all.csv").read_text()


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("scale", ["1e308", "1e-308", "inf", "nan", "0"])
def test_a_scale_that_cannot_be_computed_with_is_one_line(run, ratings, tmp_path, link, scale):
    names = ["--row", "user", "--column", "item", "--value", "rating", "--like-at", "4"]
    command = ["fit", ratings, "-o", tmp_path / "m", *names, "--link", link, "--link-scale", scale]
    assert_refused(run(*command), "(scale|sigma) must be")


@pytest.mark.parametrize("command", ["evaluate", "predict", "recommend"])
def test_a_path_that_no_file_can_have_is_one_line(run, model, tmp_path, command):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    out = [] if command == "evaluate" else ["-o", tmp_path / "o.csv"]
    for path, match in {
        tmp_path / f"{'x' * 300}.csv": "File name too long",
        loop: "Too many levels of symbolic links",
        f"{tmp_path}/a\0.csv": "null byte",
        "\x1b[31m.csv": r"There is no file '\\x1b\[31m\.csv'",
    }.items():
        assert_refused(run(command, model, path, *out), match)


def test_formulas_are_told_or_escaped(run, model, ratings, tmp_path):
    out = tmp_path / "o.csv"
    for command in (
        ["predict", model, ratings, "-o", out],
        ["recommend", model, ratings, "-o", out],
    ):
        code, _, err = run(*command)
        assert code == 0
        assert re.fullmatch(
            r"Warning: o\.csv holds .* --escape-formulas; --no-escape-[^\n]*\n", err
        )
        assert ",=1+1," in out.read_text()
        assert run(*command, "--no-escape-formulas")[::2] == (0, "")
        assert ",=1+1," in out.read_text()
        assert run(*command, "--escape-formulas")[::2] == (0, "")
        assert ",=1+1," not in out.read_text()
        assert ",'=1+1," in out.read_text()


def test_nothing_to_write_is_told_and_nothing_is_written(run, model, tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "o.csv"
    for text, match in {
        "user,item,rating\nstranger,i1,5\n": r"No entry of t\.csv has a row id and a column id",
        "user,item,rating\n": r"t\.csv holds no records",
        "": r"t\.csv is empty",
    }.items():
        table.write_text(text)
        for command in (
            ["predict", model, table, "-o", out],
            ["recommend", model, table, "-o", out],
        ):
            assert_refused(run(*command, "--unknown", "skip"), match)
        assert_refused(run("evaluate", model, table, "--unknown", "skip"), match)
    everything = ["=1+1", *(f"i{item}" for item in range(5))]
    table.write_text("user,item,rating\n" + "".join(f"u0,{item},5\n" for item in everything))
    only = ["--for", "u0", "--no-ranker"]
    code, printed, err = run("recommend", model, table, "-o", out, *only)
    warning, error = err.splitlines(keepends=True)
    assert "'u0' has entries in every column" in warning
    assert_refused((code, printed, error), "have seen every column")
    assert not out.exists()


def test_words_of_the_user_reach_the_terminal_escaped(run, model, tmp_path):
    red = "\x1b[31mred"
    table = tmp_path / f"{red}.csv"
    table.write_text(f"user,item,rating\n{red},i1,5\n")
    assert_refused(
        run("evaluate", model, table, "--unknown", "error"),
        r"line 2 of \\x1b\[31mred\.csv: the model was not fitted on the id '\\x1b\[31mred'",
    )
    assert_refused(run("evaluate", model, table, "--row", red), r"no column '\\x1b\[31mred'")
    refused = run("recommend", model, table, "--for", red, "--unknown", "error")
    assert_refused(refused, r"\\x1b\[31mred")
    assert_refused(run("evaluate", model, table, f"--{red}"), r"\\x1b\[31mred")
    table.write_text("user,item,rating\nu0,i1,5\n")
    code, out, _ = run("predict", model, table, "-o", tmp_path / f"{red}-scores.csv")
    assert code == 0
    assert out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["fit"], r"Missing .*Usage: tribit fit .*; see tribit fit --help"),
        (["evaluate", "m", "t", "--like-at", "many"], "Invalid value for '--like-at'"),
        (["recommend", "m", "t", "-o", "o", "-n", "2.5"], "Invalid value for '-n'"),
        (["evaluate", "m", "t", "--duplicates", "all"], "Invalid value for '--duplicates'"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_words_that_cannot_be_used_are_one_line(run, arguments, match):
    assert_refused(run(*arguments), match)


def test_no_words_show_the_help(run):
    code, out, err = run()
    assert (code, err) == (2, "")
    assert "recommend" in out


def test_what_nobody_foresaw_is_not_hidden(run, model, ratings, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("tribit.cli.answers.answer_question", broken)
    with pytest.raises(ZeroDivisionError):
        main(["evaluate", str(model), str(ratings)])


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (MemoryError(), "not enough memory"),
        (PermissionError(13, "Permission denied", "x" * 5000), r"Permission denied \('xxx"),
    ],
)
def test_what_the_system_refuses_is_one_line(run, model, ratings, monkeypatch, error, match):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("tribit.cli.answers.answer_question", refuse)
    assert_refused(run("evaluate", model, ratings), match)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [["info", "model.csv"], ["--help"]])
def test_a_full_device_is_one_line(fitted, command, unbuffered):
    code = "from tribit.cli import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            cwd=fitted,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "Error: Standard output could not be written (No space left on device); "
        "make room, or send it elsewhere.\n"
    )


def test_the_scores_without_formulas_are_those_of_the_library(fitted, tmp_path):
    """The option changes the ids that are written and nothing else."""
    for name, option in {"plain.csv": False, "escaped.csv": True}.items():
        predict_file(
            fitted / "model.csv", fitted / "ratings.csv", tmp_path / name, escape_formulas=option
        )
    plain, changed = (
        np.loadtxt(tmp_path / name, str, delimiter=",") for name in ("plain.csv", "escaped.csv")
    )
    np.testing.assert_array_equal(plain[:, 2:], changed[:, 2:])
    assert (plain[:, 1] != changed[:, 1]).sum() == (plain[:, 1] == "=1+1").sum() > 0


def test_output_that_nobody_reads_any_more_is_exit_code_1(fitted):
    code = "from tribit.cli import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code, "info", "model.csv"],
        cwd=fitted,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
