"""Writers killed at random moments: the file is the old one or the new one, whole, and nothing stays beside it."""

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from multiprocessing import forkserver

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion
from tribit.cli.exits import orderly_signals
from tribit.data.tables import write_table

SIGNALS = (signal.SIGKILL, signal.SIGTERM)
ROWS = np.arange(3000)


@pytest.fixture(scope="module")
def model():
    A = np.random.default_rng(0).choice([-1, 0, 1], (400, 300))
    fixed = {"l2_intercept": 1.0, "search": False}
    model = BinaryMatrixCompletion(rank=4, l2=1.0, max_iter=2, tol=1.0, random_state=0, **fixed)
    return model.fit(A)


def save(model, objective, path):
    model.record_ = dataclasses.replace(model.record_, objective=objective)
    model.save(path)


def save_table(label, path):
    write_table(path, {"row": ROWS, "label": np.full(ROWS.size, label)})


def writers(model):
    """Return for each kind of file two writers of different contents, by the name of the file."""
    tables = partial(save_table, 1), partial(save_table, -1)
    return {
        "model.tribit": (partial(save, model, 1.0), partial(save, model, 2.0)),
        "scores.csv": tables,
        "scores.tsv.gz": tables,
    }


def written_bytes(folder, name, write):
    folder.mkdir()
    write(folder / name)
    return (folder / name).read_bytes()


@pytest.fixture(scope="module")
def processes():
    """Start processes as forks of a new process without threads: a fork of one with live threads may hang."""
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        context.set_forkserver_preload([__name__])  # once, not in each process
        forkserver.ensure_running()
    return context


def write_until_killed(ready, path, pair, *, in_order):
    """Write one content and the other over the file, for ever."""
    with orderly_signals() if in_order else nullcontext():
        ready.send_bytes(b"x")
        while True:
            for write in pair:
                write(path)


def killed_while_writing(processes, path, pair, number, delay, *, in_order):
    """Return the exit code of a process that was killed after a while of writing."""
    ready, told = processes.Pipe(duplex=False)
    child = processes.Process(
        target=write_until_killed, args=(told, path, pair), kwargs={"in_order": in_order}
    )
    child.start()
    told.close()
    ready.recv_bytes()
    time.sleep(delay)
    os.kill(child.pid, number)
    child.join(60)
    return child.exitcode


def test_a_killed_writer_leaves_the_old_file_or_the_new(cases, model, processes, tmp_path):
    kinds = writers(model)
    wholes = {
        name: [written_bytes(tmp_path / f"{name} {n}", name, write) for n, write in enumerate(pair)]
        for name, pair in kinds.items()
    }
    assert all(first != second for first, second in wholes.values())
    folder = tmp_path / "target"
    folder.mkdir()
    interrupted = 0
    for seed in cases(600):
        draws = np.random.default_rng(seed)
        name = list(kinds)[seed % len(kinds)]
        number, in_order = SIGNALS[draws.integers(2)], bool(draws.integers(2))
        path = folder / name
        kinds[name][0](path)
        code = killed_while_writing(
            processes, path, kinds[name], number, draws.exponential(0.01), in_order=in_order
        )
        told = f"seed {seed}"
        ended = number == signal.SIGTERM and in_order
        assert code == (128 + number if ended else -number), told
        assert path.read_bytes() in wholes[name], told
        left = [other for other in folder.iterdir() if other.suffix == ".tmp"]
        assert len(left) <= (0 if ended else 1), told
        interrupted += len(left)
        kinds[name][1](path)
        assert path.read_bytes() == wholes[name][1], told
        assert [other for other in folder.iterdir() if other.suffix == ".tmp"] == [], told
    assert interrupted > 0  # or no kill came in the middle of a write


COMMAND = "import sys; from tribit.cli import main; main(sys.argv[1:])"


def test_a_killed_command_leaves_the_old_table_or_the_new(cases, model, tmp_path):
    model.save(tmp_path / "model.tribit")
    pairs = np.random.default_rng(1).integers(0, 300, (2, 100_000))
    write_table(tmp_path / "pairs.csv", {"u": pairs[0], "i": pairs[1]})
    folder = tmp_path / "out"
    folder.mkdir()
    out = folder / "scores.csv"

    def predict():
        names = ["--row", "u", "--column", "i"]
        files = [str(tmp_path / "model.tribit"), str(tmp_path / "pairs.csv"), "-o", str(out)]
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "predict", *files, *names],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    began = time.perf_counter()
    with predict() as whole:
        assert whole.wait() == 0, whole.stderr.read()
    longest, new = time.perf_counter() - began, out.read_bytes()
    for seed in cases(20):
        draws = np.random.default_rng(seed)
        number = SIGNALS[seed % 2]
        out.write_bytes(b"old")
        with predict() as process:
            time.sleep(longest * draws.random())
            process.send_signal(number)
            _, err = process.communicate()
        told = f"seed {seed}: {err}"
        assert process.returncode in (0, 128 + number, -number), told
        assert "Error" not in err, told
        assert out.read_bytes() == new or (process.returncode and out.read_bytes() == b"old"), told
        write_table(out, {"a": [1]})
        assert list(folder.iterdir()) == [out], told
