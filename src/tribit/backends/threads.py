"""Threads: one pool for the process, and BLAS limited to one thread during a fit.

The items of a sum are cut the same way for any number of threads, and results are added in their order. With BLAS at
one thread the bits of a fit then depend neither on ``n_jobs`` nor on other fits in the same process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from tribit.checks import is_whole
from tribit.errors import InvalidInputError, parameter, quoted

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_jobs(n_jobs: object) -> int:
    """Return the number of threads: ``None`` or -1 for every core this process may use."""
    if n_jobs is None or (is_whole(n_jobs) and n_jobs == -1):
        return _cores()
    if not is_whole(n_jobs) or n_jobs < 1:
        raise InvalidInputError(
            f"{parameter('n_jobs')} must be a whole number, at least 1, or -1 for every core; got {quoted(n_jobs)}."
        )
    return int(n_jobs)


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item in order, computed on at most ``n_jobs`` threads.

    The calling thread is one of them: it works on the next item while the result it is to yield is not there yet.
    So fits in several threads share the pool without waiting for one another.
    """
    listed = list(items)
    threads = min(n_jobs, len(listed), _cores())
    if threads < 2:
        return map(function, listed)
    return _Shared(function, listed).results(threads - 1)


@cache
def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


class _Shared:
    """Items that several threads take in turn, and their results."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self.function, self.items = function, items
        self.found: dict[int, Any] = {}
        self.taken = 0
        self.changed = threading.Condition()
        self.failure: BaseException | None = None

    def results(self, helpers: int) -> Iterator[Any]:
        """Yield the results in order, with so many threads of the pool beside this one."""
        futures = [_pool().submit(self._help) for _ in range(helpers)]
        try:
            for place in range(len(self.items)):
                yield self._wait_for(place)
        finally:
            # Left early (an error, Ctrl-C) the others must not go on writing into arrays of the caller.
            with self.changed:
                self.taken = len(self.items)
            running = [future for future in futures if not future.cancel()]
            wait(running)

    def _wait_for(self, place: int) -> Any:
        while True:
            with self.changed:
                if self.failure is not None:
                    raise self.failure
                if place in self.found:
                    return self.found.pop(place)
                mine = self._take()
                if mine is None:
                    self.changed.wait()
                    continue
            self._work(mine)

    def _help(self) -> None:
        while True:
            with self.changed:
                mine = self._take()
            if mine is None:
                return
            try:
                self._work(mine)
            except BaseException as error:
                with self.changed:
                    self.failure, self.taken = error, len(self.items)
                    self.changed.notify_all()
                return

    def _take(self) -> int | None:
        if self.taken >= len(self.items):
            return None
        self.taken += 1
        return self.taken - 1

    def _work(self, place: int) -> None:
        result = self.function(self.items[place])
        with self.changed:
            self.found[place] = result
            self.changed.notify_all()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), thread_name_prefix="tribit", initializer=_limit_this_thread)


class _Guard:
    """Number of threads that want BLAS to have one thread, and its number of threads before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.own = threading.local()
        self.holders = 0
        self.before: list[int] = []

    def enter(self) -> None:
        """Limit BLAS: in the process if no thread has yet, and in this thread where each has a limit of its own."""
        depth = getattr(self.own, "depth", 0)
        if not depth:
            with self.lock:
                if not self.holders:
                    self.before = [library.get_num_threads() for library in _libraries()]
                self.holders += 1
                for library in _libraries():
                    _set_threads(library, 1)
        self.own.depth = depth + 1

    def leave(self) -> None:
        """Give BLAS its threads back: in the process if no other thread wants it limited."""
        self.own.depth -= 1
        if not self.own.depth:
            with self.lock:
                self.holders -= 1
                self._lift()

    def after_fork(self) -> None:
        """Keep the state of the forking thread, the only one in the child; forget the other threads."""
        self.lock = threading.Lock()
        others = self.holders > 0
        self.holders = 1 if getattr(self.own, "depth", 0) else 0
        if others and not self.holders:
            self._lift()

    def _lift(self) -> None:
        for library, before in zip(_libraries(), self.before, strict=True):
            if not self.holders or _by_thread(library):
                _set_threads(library, before)


_guard = _Guard()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS at one thread inside: the threads are ours, and the bits do not depend on BLAS's.

    BLAS has one number of threads for the whole process, so that it is limited as long as any thread is inside.
    """
    _guard.enter()
    try:
        yield
    finally:
        _guard.leave()


@cache
def _libraries() -> list[Any]:
    """Return the loaded BLAS libraries. Looking for them takes milliseconds: once is enough."""
    # SciPy brings a BLAS of its own, which must be loaded to be found.
    import scipy.linalg.blas  # noqa: F401, PLC0415

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _by_thread(library: object) -> bool:
    """Return whether each thread has a limit of its own, as in OpenBLAS on top of OpenMP."""
    return getattr(library, "threading_layer", None) == "openmp"


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads, whichever thread set it before.

    Later versions of threadpoolctl let no thread but the first set a limit of the whole process, and say nothing to the
    others; here the guard's lock keeps threads apart, and one may leave last that did not enter first.
    """
    release = getattr(library, "clear_controlling_thread", lambda **_: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


def _limit_this_thread() -> None:
    for library in _libraries():
        if _by_thread(library):
            _set_threads(library, 1)


def _after_fork() -> None:
    # A forked child inherits the pool but none of its threads, and would wait for them for ever.
    _pool.cache_clear()
    _guard.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
