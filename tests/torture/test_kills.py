"""Writers killed at random moments: the file is the old one or the new one, whole, and nothing stays beside it."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import traceback

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


def writers(model):
    """Return for each kind of file two writers of different contents, by the name of the file."""

    def save(objective):
        def write(path):
            model.record_ = dataclasses.replace(model.record_, objective=objective)
            model.save(path)

        return write

    def table(label):
        return lambda path: write_table(path, {"row": ROWS, "label": np.full(ROWS.size, label)})

    return {
        "model.tribit": (save(1.0), save(2.0)),
        "scores.csv": (table(1), table(-1)),
        "scores.tsv.gz": (table(1), table(-1)),
    }


def written_bytes(folder, name, write):
    folder.mkdir()
    write(folder / name)
    return (folder / name).read_bytes()


def killed_while_writing(path, pair, number, delay, *, in_order):
    """Fork a process that writes one content and the other over the file, and kill it after a while."""
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(ready)
            with orderly_signals() if in_order else open(os.devnull):  # noqa: PTH123
                os.write(told, b"x")
                while True:
                    for write in pair:
                        write(path)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        # Only now: what the exception held, such as a file just created, has been let go.
        os._exit(code)
    os.close(told)
    os.read(ready, 1)
    os.close(ready)
    time.sleep(delay)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_killed_writer_leaves_the_old_file_or_the_new(cases, model, tmp_path):
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
            path, kinds[name], number, draws.exponential(0.01), in_order=in_order
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
