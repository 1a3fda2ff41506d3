"""Workers that die in the middle of a sweep, and users who end a fit in the middle of one."""

import os
import signal
import threading
import time

import pytest

from tribit import BinaryMatrixCompletion, TribitWarning
from tribit.cluster import calls, from_observations, parts

MODEL = {"rank": 2, "l2": 1.0, "l2_intercept": 0.5, "search": False, "random_state": 0}


@pytest.mark.parametrize(
    "name", ["half_sweep", pytest.param("column_models", marks=pytest.mark.slow)]
)
def test_a_worker_killed_in_the_middle_of_a_sweep_is_survived(
    monkeypatch, tmp_path, client, seen, name
):
    sweep, killed = getattr(parts, name), tmp_path / "killed"

    def deadly(held, *given, **options):
        if held.recipe[0].rows[0] > 0 and not killed.exists():
            killed.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return sweep(held, *given, **options)

    ours = BinaryMatrixCompletion(**MODEL).fit(seen)
    there = from_observations(seen, client, n_partitions=4)
    monkeypatch.setattr(parts, name, deadly)
    monkeypatch.setattr(calls, "CHECK_SECONDS", 0.0)
    with pytest.warns(TribitWarning, match=r"A worker left the cluster during the fit \(tcp://"):
        theirs = BinaryMatrixCompletion(**MODEL).fit(there)
    assert int(killed.read_text()) not in client.run(os.getpid).values()
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    assert theirs.n_iter_ == ours.n_iter_


@pytest.mark.filterwarnings("ignore:Interrupted:RuntimeWarning")
def test_ctrl_c_in_the_middle_of_a_sweep_keeps_the_best_so_far(monkeypatch, client, seen):
    sweep, calls = parts.half_sweep, []

    def slow(*given, **options):
        time.sleep(0.5)
        return sweep(*given, **options)

    def after(iteration):
        calls.append(iteration)
        monkeypatch.setattr(parts, "half_sweep", slow)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()

    there = from_observations(seen, client, n_partitions=4)
    model = BinaryMatrixCompletion(**MODEL, callback=after).fit(there)
    assert model.stop_reason_ == "interrupted from the keyboard"
    assert len(calls) == model.n_iter_ == 1
    monkeypatch.setattr(parts, "half_sweep", sweep)
    until = time.monotonic() + 20
    while any(client.processing().values()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(client.processing().values())  # what was under way is not gone on with
    assert BinaryMatrixCompletion(**MODEL).fit(there).converged_
