"""Fits in threads, in forks and under signals: the same bits as alone."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_info, threadpool_limits

from tribit import BinaryMatrixCompletion, Observations, backends
from tribit.backends import threads
from tribit.backends.layout import sharing_layouts
from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.model.risks import pn, tri
from tribit.selection import stages

KINDS = [
    {"gammas": (1.0, 0.0, 0.0), "rank": 6, "l2": 2.0, "l2_intercept": 1.0},
    {"gammas": (0.6, 0.2, 0.2), "rank": 6, "l2": 2.0, "l2_intercept": 1.0, "radius": 2.0},
    {
        "gammas": (1.0, 0.0, 0.0),
        "rank": 4,
        "l2": 3.0,
        "implicit_features": True,
        "l2_implicit": 5.0,
    },
    {"n_candidates": 12},  # a longer search
]


@pytest.fixture(autouse=True)
def two_blas_threads():
    """Two threads for BLAS, which make test starts with one: with one there is nothing to guard."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.fixture
def cores(monkeypatch):
    """A function that pretends that there are so many cores, with a pool of their own."""

    def pretend(number):
        monkeypatch.setattr(threads, "_cores", lambda: number)
        threads._pool.cache_clear()

    yield pretend
    threads._pool().shutdown()
    threads._pool.cache_clear()


@pytest.fixture(params=["0", "1"], ids=["numpy", "compiled"])
def kernels(request, monkeypatch):
    """NumPy's backend and the compiled one, by turns, for tables of any size."""
    if request.param == "1" and find_spec("numba") is None:
        pytest.skip('needs compiled kernels: pip install "tribit[fast]"')
    monkeypatch.setenv("TRIBIT_COMPILED", request.param)


@pytest.fixture
def switching():
    """Threads that take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def table(seed):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(150, 3)) @ draws.normal(size=(3, 140))
    return np.where(draws.random(X.shape) < 0.15, np.sign(X + draws.normal(size=X.shape)), 0)


def fitted(seed, n_jobs=1, callback=None):
    model = BinaryMatrixCompletion(
        **{"max_iter": 5, "n_candidates": 3, **KINDS[seed % len(KINDS)]},
        n_jobs=n_jobs,
        random_state=seed,
        callback=callback,
    )
    return model.fit(table(seed))


def bits(model):
    return model.row_factors_.tobytes(), model.column_factors_.tobytes(), model.objective_


def blas_threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.usefixtures("kernels")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("short_trials")
def test_fits_in_threads_have_the_bits_of_fits_alone(cases):
    seeds = cases(80)
    before = blas_threads()
    alone = [bits(fitted(seed)) for seed in seeds]
    assert blas_threads() == before
    during = []

    def look(_):
        during.append(
            blas_threads()
        )  # of the whole process: whatever fit has just ended, this one has not

    def job(seed):
        return bits(fitted(seed, n_jobs=1 + seed % 3, callback=look))

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(job, seeds))
    assert [a == b for a, b in zip(alone, together, strict=True)] == [True] * len(seeds)
    assert set(map(frozenset, during)) == {frozenset({1})}
    assert blas_threads() == before


def test_threads_that_share_observations_have_the_weights_of_their_own_risk(switching):
    seen = Observations.from_matrix(table(0))
    risks = [pn(), tri(0.5, 0.5, 0.0, 0.8), tri(0.2, 0.3, 0.5, 0.8), tri(0.6, 0.2, 0.2, 0.8)]
    expected = [risk.observed_weights(seen.labels, seen.rows, seen.columns) for risk in risks]

    def job(number):
        odd = 0
        for turn in range(300):
            which = (number + turn) % len(risks)
            with sharing_layouts(seen):
                found = backends._observed_weights(seen, risks[which], by_label=False)
            odd += not all(map(np.array_equal, found, expected[which]))
        return odd

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(job, range(4))) == [0] * 4


@pytest.mark.usefixtures("short_trials")
def test_blas_is_limited_between_the_fits_of_a_search_too(monkeypatch):
    """Beside another fit it would be: so the bits of a fit alone must not hang on what BLAS does there."""
    during = []

    def look(*arguments, **options):
        during.append(blas_threads())
        return svds(*arguments, **options)

    monkeypatch.setattr(stages, "svds", look)
    fitted(3)
    assert during
    assert set(map(frozenset, during)) == {frozenset({1})}


def test_blas_is_limited_as_long_as_any_thread_wants_it():
    before = blas_threads()
    assert before == {2}
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            inside.set()
            leave.wait(30)

    with single_threaded_blas():
        other = threading.Thread(target=hold)
        other.start()
        inside.wait(30)
    assert blas_threads() == {1}  # this thread has left, the other has not
    leave.set()
    other.join()
    assert blas_threads() == before


def child_says(function):
    """Return what a function returns in a forked child, as text."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, str(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().decode()
    finally:
        os.waitpid(child, 0)
    return said


@pytest.mark.usefixtures("kernels")
@pytest.mark.filterwarnings("ignore")
def test_a_fork_in_the_middle_of_a_fit_leaves_both_sides_whole(cases):
    """A child of another thread starts anew; a child of the fitting thread keeps the guard it is in."""
    before = blas_threads()
    for seed in cases(20):
        expected = bits(fitted(seed))
        assert in_a_child_of_the_fit(seed, expected) == ["True"]
        assert in_a_child_beside_a_fit(seed, expected, before) == "(True, True)"
    assert blas_threads() == before


def in_a_child_of_the_fit(seed, expected):
    said = []

    def fork(_):
        if not said:
            said.append(child_says(lambda: bits(fitted(seed)) == expected))

    assert bits(fitted(seed, callback=fork)) == expected
    return said


def in_a_child_beside_a_fit(seed, expected, before):
    holding, leave = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            holding.set()
            leave.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    holding.wait(30)
    try:
        return child_says(lambda: (blas_threads() == before, bits(fitted(seed, 2)) == expected))
    finally:
        leave.set()
        other.join()


def test_results_come_in_order_on_any_number_of_threads(cores):
    cores(8)
    for n_jobs in (1, 2, 3, 8, 100):
        assert list(ordered_map(lambda i: i * i, range(50), n_jobs)) == [i * i for i in range(50)]


def test_fits_share_one_pool(cores):
    cores(3)
    others = set(threading.enumerate())
    for n_jobs in range(1, 60):
        list(ordered_map(lambda i: i, range(100), n_jobs))
    assert len(set(threading.enumerate()) - others) <= 3


def test_maps_inside_maps_do_not_wait_for_one_another(cores):
    cores(2)

    def inner(i):
        return sum(ordered_map(lambda j: i * j, range(10), 2))

    def outer(i):
        return sum(ordered_map(inner, range(i, i + 5), 2))

    expected = [sum(45 * j for j in range(i, i + 5)) for i in range(20)]
    assert list(ordered_map(outer, range(20), 2)) == expected


@pytest.mark.parametrize("place", [0, 7, 19])
def test_an_error_in_a_thread_reaches_the_caller_and_ends_the_rest(cores, place):
    cores(4)
    done = []

    def function(i):
        if i == place:
            raise KeyError("here")
        done.append(i)
        return i

    with pytest.raises(KeyError, match="here"):
        list(ordered_map(function, range(20), 4))
    count = len(done)
    list(ordered_map(lambda i: i, range(20), 4))  # the pool still works
    assert len(done) == count  # and nothing of the first map is running any more


@pytest.mark.filterwarnings("ignore:Interrupted:RuntimeWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
def test_ctrl_c_at_any_moment_ends_a_fit_with_a_model_or_an_error(cases):
    """The signal comes from a timer, at another moment for each seed; BLAS and the pool survive it."""
    before = blas_threads()
    ended = set()

    def interrupt(*_):
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGALRM, interrupt)
    try:
        for seed in cases(60):
            model = BinaryMatrixCompletion(random_state=0, n_jobs=2)
            signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.03 * (seed % 40))
            try:
                model.fit(table(seed))
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:  # before there was anything to keep
                ended.add("raised")
                continue
            interrupted = "interrupted" in model.stop_reason_
            ended.add("interrupted" if interrupted else "whole")
            assert np.isfinite(model.complete()).all()
            if interrupted:
                assert not model.converged_
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, earlier)
    assert ended
    assert blas_threads() == before
