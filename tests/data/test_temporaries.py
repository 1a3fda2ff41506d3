import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tribit.data import files
from tribit.data.files import atomic_path

#: Begins to write over the file of its first argument, says so, and waits to be killed.
HALF = """
import sys, time
from tribit.data.files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print(temporary.name, flush=True)
    time.sleep(60)
"""
#: Writes its second argument over the file of its first, many times.
MANY = """
import sys
from tribit.data.files import atomic_path
for _ in range(200):
    with atomic_path(sys.argv[1]) as temporary:
        temporary.write_text(sys.argv[2] * 50_000)
"""


def write(target, text):
    with atomic_path(target) as temporary:
        temporary.write_text(text)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def half_written(tmp_path):
    """A process in the middle of writing ``scores.csv``, the name of its temporary file, and the target."""
    target = tmp_path / "scores.csv"
    target.write_text("old")
    with subprocess.Popen(
        [sys.executable, "-c", HALF, str(target)], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process, process.stdout.readline().strip(), target
        process.kill()


def test_what_a_killed_writer_left_is_removed_by_the_next(half_written):
    process, left, target = half_written
    process.kill()
    process.wait()
    assert names(target.parent) == [left, "scores.csv"]
    assert target.read_text() == "old"
    write(target.parent / "other.csv", "new")
    assert names(target.parent) == ["other.csv", "scores.csv"]


def test_a_living_writer_keeps_its_file(half_written):
    _, left, target = half_written
    write(target, "new")
    assert names(target.parent) == [left, "scores.csv"]
    assert target.read_text() == "new"


def test_two_writers_of_one_file_leave_it_whole(tmp_path):
    target = tmp_path / ("x" * 255)
    command = [sys.executable, "-c", MANY, str(target)]
    writers = [subprocess.Popen([*command, letter]) for letter in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert target.read_text() in ("a" * 50_000, "b" * 50_000)
    assert names(tmp_path) == [target.name]


def test_threads_do_not_take_one_another_for_dead(tmp_path):
    def repeat(name):
        for _ in range(100):
            write(tmp_path / name, name)

    threads = [threading.Thread(target=repeat, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == list("abcd")
    assert all((tmp_path / name).read_text() == name for name in "abcd")


@pytest.mark.parametrize(("age", "stays"), [(0, True), (3600, True), (7 * 24 * 3600, False)])
def test_a_file_of_another_machine_goes_when_it_is_old(tmp_path, age, stays):
    theirs = tmp_path / ".tribit-01234567-0123456789abcdef.tmp"
    theirs.write_text("half")
    then = time.time() - age
    os.utime(theirs, (then, then))
    write(tmp_path / "scores.csv", "new")
    assert theirs.exists() == stays


def test_a_new_file_that_is_taken_for_dead_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    made, take = [], files.take_lock

    def late(descriptor):
        if not made:
            files.remove_dead(tmp_path)  # as another process may, just between creating and locking
        made.append(descriptor)
        return take(descriptor)

    def remove_with_the_true_lock(path):
        with monkeypatch.context() as context:
            context.setattr(files, "take_lock", take)
            remove(path)

    remove = files._remove_if_dead
    monkeypatch.setattr(files, "_remove_if_dead", remove_with_the_true_lock)
    monkeypatch.setattr(files, "take_lock", late)
    write(tmp_path / "scores.csv", "new")
    assert len(made) == 2
    assert names(tmp_path) == ["scores.csv"]


def test_without_locks_files_are_written_and_nothing_is_taken_for_dead(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files, "take_lock", refuse)
    with atomic_path(tmp_path / "a") as outer:
        outer.write_text("a")
        write(tmp_path / "b", "b")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_told_to_end_leaves_no_temporary_file(tmp_path, number):
    code = (
        "import sys, time\n"
        "from tribit import cli\n"
        "from tribit.cli import answers\n"
        "from tribit.data.files import atomic_path\n"
        "class Answer:\n"
        "    def check(self):\n"
        "        pass\n"
        "    def write(self, out, **_):\n"
        "        with atomic_path(out) as temporary:\n"
        "            temporary.write_text('half')\n"
        "            print('writing', flush=True)\n"
        "            time.sleep(60)\n"
        "answers.answer_question = lambda *_: Answer()\n"
        f"cli.main(['predict', 'model', 'pairs.csv', '-o', {str(tmp_path / 'scores.csv')!r}])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(names(tmp_path)) == 1
        process.send_signal(number)
        _, err = process.communicate()
    assert "Traceback" not in err
    assert names(tmp_path) == []
    if number == signal.SIGTERM:
        assert process.returncode == 143
