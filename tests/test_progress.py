"""Progress: a bar on a terminal, a line in a notebook, else a line for each stage, and the log."""

import io
import logging
import sys
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from tribit import BinaryMatrixCompletion, cross_validate, progress
from tribit.cli import exits, main

LABELS = np.random.default_rng(0).choice([-1, 0, 1], (60, 40))


def fit(**options):
    options = {"n_candidates": 3, "members": 1, "random_state": 0, "n_jobs": 1, **options}
    return BinaryMatrixCompletion(**options).fit(LABELS)


def test_there_is_a_line_for_each_stage_where_there_is_no_terminal(capsys):
    quiet = fit()
    assert capsys.readouterr() == ("", "")
    shown = fit(verbose=1)
    out, err = capsys.readouterr()
    searching, fitting = err.splitlines()
    assert out == ""
    assert searching.startswith(
        f"searching: {len(shown.search_.candidates)} candidates, lowest score 0."
    )
    assert fitting.startswith(f"fitting: {shown.n_iter_} iteration")
    assert shown.predict_proba(0, 1) == quiet.predict_proba(0, 1)
    cross_validate(BinaryMatrixCompletion(rank=1, l2=1.0, search=False, verbose=1), LABELS, 2)
    assert capsys.readouterr().err.startswith("folds: 2 steps (")


def test_a_long_stage_has_further_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    fit(verbose=1, search=False, rank=1, l2=1.0)
    *lines, last = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("fitting: ") and line.endswith("), not done yet") for line in lines)
    assert last.endswith(" s)")


def test_stages_are_logged_instead_where_logging_is_set_up(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="tribit"):
        for verbose in (0, 1):
            caplog.clear()
            fit(verbose=verbose)
            stages = [each.getMessage().split(":")[0] for each in caplog.records]
            assert stages == ["searching", "fitting"]
            assert {each.shown for each in caplog.records} == {bool(verbose)}
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda **_: terminal)
    fit(verbose=1)
    assert "searching" in stream.getvalue()
    assert "candidates" in stream.getvalue()
    assert capsys.readouterr().err == ""


def test_a_notebook_has_a_line_that_changes(capsys, monkeypatch):
    shown = []

    class Handle:
        def update(self, content, *, raw):
            assert raw
            shown[-1].append(content["text/plain"])

    def display(content, *, raw, display_id):
        assert raw
        assert display_id
        shown.append([content["text/plain"]])
        return Handle()

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console.Console", Notebook)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_CHANGES", 0.0)
    fit(verbose=1)
    searching, fitting = shown
    assert len(searching) > 2
    assert searching[0].startswith("searching: 0 candidates (")
    assert "lowest score" in searching[-1]
    assert fitting[-1].startswith("fitting: ")
    assert capsys.readouterr() == ("", "")


class Notebook:
    is_terminal, is_jupyter = False, True

    def __init__(self, **_):
        pass


def test_the_users_callback_is_called(capsys):
    seen = []
    fit(verbose=1, search=False, rank=1, l2=1.0, callback=lambda each: seen.append(each.iteration))
    assert seen
    assert f"fitting: {seen[-1]} iteration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "options", "stages"), [(2.0, [], 0), (0.0, [], 2), (0.0, ["-q"], 0)]
)
def test_the_command_line_has_a_line_for_long_stages(
    tmp_path, capsys, monkeypatch, seconds, options, stages
):
    monkeypatch.setattr(exits, "SECONDS_WITHOUT_LINE", seconds)
    path = tmp_path / "votes.csv"
    table = np.column_stack([np.arange(60), LABELS])
    header = ",".join(["member", *(f"bill {j}" for j in range(40))])
    np.savetxt(path, table, fmt="%d", delimiter=",", header=header, comments="")
    command = ["fit", str(path), "--wide", "-o", str(tmp_path / "m.tribit"), "--n-candidates", "2"]
    with pytest.raises(SystemExit) as stop:
        main([*command, *options])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Progress: ")]
    assert (stop.value.code or 0, len(lines)) == (0, stages)
