"""Tasks in processes: what is run, in which order rows come back, and what a failure leaves."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from tribit import InvalidInputError, TribitError
from tribit.paper.experiments.journal import Journal, read_journal
from tribit.paper.experiments.runner import Pool, Study, Task, progress_bar

HEADER = {"study": "made"}

# Task functions: here, where a worker, which has this process's sys.path, can import them.


def square(n, marks=None):
    """Leave a mark, so that a test can count how often it was run."""
    if marks is not None:
        with (Path(marks) / str(n)).open("a") as file:
            file.write("run\n")
    return [{"n": n, "square": n * n}, {"n": n, "square": -n * n}]


def wait_until(holds, what):
    """Look again and again; a process that waits for what never comes must not outlive its test."""
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise RuntimeError(f"{what} never came")


def wait_for(marks, *names):
    wait_until(lambda: all((Path(marks) / name).exists() for name in names), names)


def square_after(n, marks, *names):
    """Return only when other tasks, which come later in the study, have left their marks."""
    wait_for(marks, *names)
    return square(n)


def when_journalled(journal, count, then):
    """Fail or die when the journal, its header included, has so many lines."""
    wait_until(lambda: Path(journal).read_bytes().count(b"\n") >= count, f"line {count}")
    if then == "die":
        os._exit(1)
    raise InvalidInputError("The task is wrong; leave it out.")


def sleep(marks):
    (Path(marks) / "asleep").write_text(str(os.getpid()))
    time.sleep(600)


def threads():
    return [{"threads": library["num_threads"]} for library in threadpool_info()]


def study(*stages):
    """Return a study whose stages are lists of tasks, or functions from results to them."""
    functions = tuple(
        stage if callable(stage) else (lambda _, stage=stage: stage) for stage in stages
    )
    return Study("made", {}, functions, n_tasks=0)


def squares(*numbers, marks=None):
    return [Task(f"square {n}", square, (n, marks)) for n in numbers]


def rows_of(*numbers):
    return [row for n in numbers for row in square(n)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal" / "made.jsonl"


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return str(folder)


@pytest.fixture(scope="module")
def pools():
    """One process, and two, which most of the tests share: they take a while to start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, "2")  # what they would do if it were up to the environment
        opened = {1: Pool(1), 2: Pool(2)}
        yield opened
        for pool in opened.values():
            pool.close()


def run(pool, path, made, advance=lambda: None):
    with Journal(path, HEADER) as journal:
        return pool.finish(made, journal, advance)


# Order


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_come_in_the_order_of_the_tasks(pools, path, n_jobs):
    assert run(pools[n_jobs], path, study(squares(5, 3, 4, 1, 2))) == rows_of(5, 3, 4, 1, 2)


def test_the_order_in_which_tasks_end_does_not_matter(pools, path, marks):
    late = Task("late", square_after, (9, marks, "1", "2"))
    rows = run(pools[2], path, study([late, *squares(1, 2, marks=marks)]))
    assert rows == rows_of(9, 1, 2)
    assert list(read_journal(path, HEADER))[-1] == "late"


def test_blas_has_one_thread(pools, path):
    rows = run(pools[1], path, study([Task("threads", threads, ())]))
    assert rows
    assert {row["threads"] for row in rows} == {1}


# Stages


def test_a_stage_sees_the_results_before_it(pools, path, marks):
    def second(results):
        return squares(*(results[f"square {n}"][0]["square"] for n in (3, 2)), marks=marks)

    def third(results):
        return squares(-results["square 9"][1]["square"], marks=marks)

    rows = run(pools[2], path, study(squares(2, 3), second, third))
    assert rows == rows_of(2, 3, 9, 4, 81)
    assert sorted(mark.name for mark in Path(marks).iterdir()) == ["4", "81", "9"]


def test_rows_are_none_until_every_stage_is_finished():
    made = study(squares(1, 2), lambda results: squares(results["square 2"][0]["square"]))
    results = {}
    for n in (1, 2, 4):
        assert made.rows(results) is None
        results[f"square {n}"] = square(n)
    assert made.rows(results) == rows_of(1, 2, 4)
    assert made.rows(results | {"of another run": [{"n": 7}]}) == rows_of(1, 2, 4)


# Going on


def test_only_tasks_that_are_missing_are_run(pools, path, marks):
    kept = [{"n": 2, "square": "kept"}]
    with Journal(path, HEADER) as journal:
        journal.add("square 2", kept)
    steps = []
    made = study(squares(1, 2, 3, marks=marks), squares(4, marks=marks))
    rows = run(pools[2], path, made, lambda: steps.append(None))
    assert rows == rows_of(1) + kept + rows_of(3, 4)
    assert sorted(mark.name for mark in Path(marks).iterdir()) == ["1", "3", "4"]
    assert len(steps) == 4  # the bar counts what was there, too
    before = path.read_bytes()
    assert run(pools[2], path, made) == rows
    assert path.read_bytes() == before
    assert {mark.read_text() for mark in Path(marks).iterdir()} == {"run\n"}


def test_a_finished_study_starts_no_process(path):
    with Journal(path, HEADER) as journal:
        journal.add("square 1", square(1))
    children = set(multiprocessing.active_children())
    pool = Pool(1)
    assert run(pool, path, study(squares(1))) == rows_of(1)
    assert set(multiprocessing.active_children()) <= children
    pool.close()


# Failures


def test_an_error_in_a_task_surfaces_and_what_was_finished_is_kept(pools, path):
    wrong = Task("wrong", when_journalled, (str(path), 3, "fail"))
    with pytest.raises(InvalidInputError, match=r"^The task is wrong; leave it out\.$"):
        run(pools[1], path, study([*squares(1, 2), wrong]))
    assert read_journal(path, HEADER) == {"square 1": square(1), "square 2": square(2)}
    # The pool is not broken, and goes on where it stopped.
    assert run(pools[1], path, study(squares(1, 2, 3))) == rows_of(1, 2, 3)


def test_a_worker_that_dies_is_one_sentence_and_what_was_finished_is_kept(path):
    pool = Pool(1)
    try:
        dying = Task("dying", when_journalled, (str(path), 3, "die"))
        with pytest.raises(TribitError, match=r"^A worker process died[^\n]*\.$"):
            run(pool, path, study([*squares(1, 2), dying, *squares(3)]))
        assert read_journal(path, HEADER) == {"square 1": square(1), "square 2": square(2)}
        # The pool is of no use any more; that too is told in a sentence.
        with pytest.raises(TribitError, match=r"^A worker process died[^\n]*\.$"):
            run(pool, path, study(squares(4)))
    finally:
        pool.close()


def test_closing_ends_a_task_in_its_middle(path, marks):
    before = set(multiprocessing.active_children())
    pool = Pool(2)

    def stop():
        wait_for(marks, "asleep")
        raise KeyboardInterrupt

    tasks = [Task("asleep", sleep, (marks,)), *squares(1)]
    with pytest.raises(KeyboardInterrupt):
        run(pool, path, study(tasks), stop)
    assert set(read_journal(path, HEADER)) == {"square 1"}
    pool.close()
    deadline = time.monotonic() + 60
    while (left := set(multiprocessing.active_children()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in left:
        process.kill()  # or this process would wait for it
    assert not left


# The bar


def test_nothing_is_shown_outside_a_terminal(capsys):
    for shown in (True, False):
        with progress_bar(shown=shown) as begin:
            advance = begin("fig1", 3)
            for _ in range(3):
                advance()
    assert capsys.readouterr() == ("", "")
