"""A run that is killed at any moment goes on, and ends with the tables of one that was not."""

import os
import signal
import subprocess
import sys
import time

import pytest

#: The command line, on a smaller matrix: it travels to the processes of the pool with each task.
SCRIPT = """
from dataclasses import replace
from tribit.cli import main
from tribit.paper.experiments import synthetic_exhibits as exhibits
exhibits.EXPERIMENT_1 = replace(exhibits.EXPERIMENT_1, size=40, rank=4)
main()
"""
COMMAND = [sys.executable, "-c", SCRIPT, "reproduce", "fig1"]
OPTIONS = ["--quick", "--quiet", "--jobs", "2"]
TABLES = ("fig1.csv", "fig1.md", "fig1.png", "fig1.pdf")


def command(out):
    return [*COMMAND, *OPTIONS, "--out", str(out)]


def contents(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run(command(folder), check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def whole(finished):
    """The tables of that run."""
    return contents(finished)


def lines(journal):
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_after(out, n_lines):
    """Start a run in a group of its own and kill its first process when the journal has so many lines."""
    journal = out / "journal" / "fig1.jsonl"
    running = subprocess.Popen(
        command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while lines(journal) < n_lines and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.poll() is None, "the run was over before it could be killed"
    running.send_signal(signal.SIGKILL)
    running.wait()
    return running.pid, journal


def assert_gone(group):
    """Workers do not outlive the process that was killed."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("processes of the killed run are still there")


@pytest.mark.slow
def test_killed_runs_go_on_to_the_same_tables(tmp_path, whole):
    seen = 0
    for n_lines in (1, 8):
        group, journal = kill_after(tmp_path, n_lines)
        assert_gone(group)
        assert seen <= lines(journal) < 13
        seen = lines(journal)
        assert not (tmp_path / "fig1.csv").exists()
    # Cut in the middle of a line, as a kill within a write would.
    journal.write_bytes(journal.read_bytes() + b'{"key": "1 0 1 0", "rows": [{"tri')
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert contents(tmp_path) == whole
    assert not list(tmp_path.glob(".tribit-*"))


@pytest.mark.slow  # in one process: tests/paper/experiments/test_reproduction.py
def test_a_finished_run_is_drawn_again_without_work(finished, whole):
    journal = finished / "journal" / "fig1.jsonl"
    before = journal.read_bytes()
    (finished / "fig1.png").unlink()
    subprocess.run(command(finished), check=True, capture_output=True)
    assert journal.read_bytes() == before
    assert contents(finished) == whole


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on(tmp_path, whole):
    journal = tmp_path / "journal" / "fig1.jsonl"
    running = subprocess.Popen(
        command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    while lines(journal) < 3 and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=90)
    assert running.returncode == 130
    assert errors == b"Interrupted: run the same command again to continue.\n"
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert contents(tmp_path) == whole
