"""Calls on the workers of a cluster: one task for each partition, and sums of the results by a tree.

A task is a pure function of a partition and of arrays that travel with it. The partition is itself the result of tasks
that read its source, so the scheduler recomputes the results of a lost worker without any code here.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitError,
    TribitWarning,
    listed,
    parameter,
    printable,
    quoted,
    warn,
)

#: A future of distributed, which has no types: only passed on.
Future: TypeAlias = object
Item = TypeVar("Item")

#: Results added in one task, all in the memory of one worker.
TREE_BRANCHES = 8
#: Results of at most this many bytes are added on this machine, which is cheaper than another round of tasks.
MAX_ROUND_BYTES = 2**20
#: Shared arguments of more bytes become a task. dask does so from 100,000 bytes on, but keyed by the keyword's name, so
#: that concurrent calls would share the first one's value.
SHARED_TASK_BYTES = 50_000
#: Size of a graph above which dask warns. Factors travel with the tasks that read them, so that a task can be repeated.
GRAPH_WARNING_KEY = "distributed.admin.large-graph-warning-threshold"


#: Protocols of addresses that dask connects to, and those that need certificates.
PROTOCOLS = ("tcp", "tls", "ucx", "ws", "wss")
SECURE_PROTOCOLS = ("tls", "wss")


def import_distributed() -> ModuleType:
    """Return the package ``distributed``, or say how to install it."""
    if importlib.util.find_spec("distributed") is None:
        raise InvalidInputError(
            'A cluster needs dask.distributed, which is not installed; run pip install "tribit[dask]".'
        )
    return importlib.import_module("distributed")


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to the scheduler at an address for as long as the block lasts.

    Examples
    --------
    >>> from tribit.cluster import connect
    >>> with connect("tcp://10.0.0.1:8786") as client:  # doctest: +SKIP
    ...     model.fit(X, client=client)
    """
    module = import_distributed()
    found = re.fullmatch(r"(?:(\w+)://)?[^/]+:\d+", address)
    if found is None or found[1] not in (None, *PROTOCOLS):
        raise InvalidInputError(
            f"{quoted(address)}, given as {parameter('scheduler')}, is not the address of a scheduler; give a host "
            "and a port, such as tcp://10.0.0.1:8786."
        )
    # Checked before a client exists: one without certificates fails only after 30 s.
    if (
        found[1] in SECURE_PROTOCOLS
        and not module.Security().get_connection_args("client")["ssl_context"]
    ):
        raise InvalidInputError(
            f"{quoted(address)}, given as {parameter('scheduler')}, needs certificates, and dask has none: name "
            "them in its configuration under distributed.comm.tls."
        )
    try:
        client = module.Client(address, set_as_default=False, timeout="15s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidInputError(
            f"No scheduler answered at {quoted(address)}, given as {parameter('scheduler')}; start one with dask "
            "scheduler and give the address that it prints, such as tcp://10.0.0.1:8786."
        ) from error
    try:
        yield client
    finally:
        client.close()


#: Seconds to wait for the first worker: a new cluster, or one whose worker restarts, has none yet.
FIRST_WORKER_SECONDS = 10.0
#: Seconds without a worker after which a fit ends. A nanny replaces a worker in seconds, a batch system or a cloud in
#: minutes.
REPLACEMENT_SECONDS = 300.0


#: Seconds between two questions for the workers that are left: each costs some milliseconds.
CHECK_SECONDS = 2.0
#: Text in the error of dask for tasks that another version of the software serialised.
VERSION_MISMATCH = "deserialization of the task graph"


class Cluster:
    """A client of a dask scheduler, as the backends use it.

    Parameters
    ----------
    client : distributed.Client
        Connected, and not asynchronous.
    """

    def __init__(self, client: object) -> None:
        module = import_distributed()
        if not isinstance(client, module.Client) or client.asynchronous:
            raise InvalidTypeError(
                f"client is of type {type(client).__name__}; pass a distributed.Client that is not asynchronous."
            )
        if not client.scheduler_info(n_workers=1)["workers"]:
            try:
                client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
            except TimeoutError:
                raise InvalidInputError(
                    "The cluster of the client has no worker; start one with dask worker and the scheduler's address."
                ) from None
        self.client = client
        self._workers, self._checked = self._addresses(), time.monotonic()

    def _addresses(self) -> set[str]:
        """Return the addresses of all workers."""
        return set(self.client.scheduler_info()["workers"])

    def _warn_of_lost_workers(self) -> None:
        """Warn of workers that left the cluster since the last check; ask the scheduler only now and then."""
        if time.monotonic() - self._checked < CHECK_SECONDS:
            return
        workers = self._addresses()
        lost = sorted(self._workers - workers)
        self._workers, self._checked = workers, time.monotonic()
        if lost:
            some = "A worker" if len(lost) == 1 else f"{len(lost)} workers"
            warn(
                f"{some} left the cluster during the fit ({listed(lost)}); the cluster has {len(workers)} now, which "
                "compute again what was lost.",
                TribitWarning,
            )

    def map(
        self, function: Callable[..., Any], *lists: Iterable[object], **same: object
    ) -> list[Future]:
        """Return futures of a function of one item of each list, with shared keyword arguments.

        A large shared argument becomes a task, sent to one worker and from there to the others. As a part of the graph
        it survives the loss of its worker, unlike scattered data.
        """
        import dask  # noqa: PLC0415 - an extra

        with dask.config.set({GRAPH_WARNING_KEY: "1TB"}):
            given = {
                name: self.client.submit(_identity, value, pure=False)
                if _is_large(value)
                else value
                for name, value in same.items()
            }
            found: list[Future] = self.client.map(function, *lists, pure=False, **given)
        return found

    def spread(self, pieces: list[Any]) -> list[Any]:
        """Return futures of arrays that several calls read; small arrays are returned unchanged."""
        if sum(piece.nbytes for piece in pieces) <= MAX_ROUND_BYTES:
            return pieces
        return self.map(_identity, pieces)

    def reduce(self, function: Callable[[list[Any]], Any], futures: Sequence[Future]) -> Future:
        """Return a future of the results combined by a function in their order, group by group up a tree."""
        level = list(futures)
        while len(level) > 1:
            level = [self.client.submit(function, group, pure=False) for group in _groups(level)]
        return level[0]

    def total(self, futures: Sequence[Future], n_bytes: int) -> Any:
        """Return the sum of arrays, or of each of several arrays, of so many bytes each.

        The tree has a fixed order, so that the bits do not depend on where the sum is made.
        """
        if n_bytes * len(futures) <= MAX_ROUND_BYTES:
            return sum_by_tree(self.results(futures))
        return self.results(self.reduce(_sum, futures))

    def own_and_total(self, futures: Sequence[Future], n_bytes: int) -> tuple[list[Any], Any]:
        """Return the first halves of results that are pairs, and the sum of the second, of so many bytes each."""
        if n_bytes * len(futures) <= MAX_ROUND_BYTES:
            first, second = zip(*self.results(futures), strict=True)
            return list(first), sum_by_tree(list(second))
        own = self.map(_item, futures, place=0)
        shared = self.reduce(_sum, self.map(_item, futures, place=1))
        found: list[Any] = self.results([own, shared])
        return found[0], found[1]

    def results(self, futures: object) -> Any:
        """Wait for futures and return their results in the same nesting."""
        from distributed import KilledWorker  # noqa: PLC0415 - an extra

        try:
            self._wait(futures)
            found = self.client.gather(futures)
        except CancelledError as error:
            raise TribitError(
                "The connection to the scheduler of the cluster was lost during the fit, and with it the results of "
                "the workers; check that the scheduler is up, and fit again."
            ) from error
        except (ImportError, RuntimeError) as error:
            if not isinstance(error, ImportError) and VERSION_MISMATCH not in str(error):
                raise
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise TribitError(
                f"The scheduler or a worker of the cluster could not load a task ({printable(reason)}); install "
                "the same versions of tribit and its dependencies on all machines."
            ) from error
        except KilledWorker as error:
            raise TribitError(
                "Every worker that tried a task of the fit was killed, most likely for lack of memory: cut the table "
                f"into more partitions ({parameter('n_partitions')}), or give workers more memory. The last of "
                f"{error.allowed_failures + 1} was {printable(str(error.last_worker.address))}."
            ) from error
        self._warn_of_lost_workers()
        return found

    def _wait(self, futures: object) -> None:
        """Wait for futures as long as there are workers, or for new ones for a while."""
        import distributed  # noqa: PLC0415 - an extra

        untyped: Any = distributed
        pending = untyped.futures_of(futures)
        while True:
            try:
                with self.client.as_current():
                    untyped.wait(pending, timeout=REPLACEMENT_SECONDS)
            except TimeoutError:
                if not self.client.scheduler_info(n_workers=1)["workers"]:
                    raise TribitError(
                        f"The cluster has no worker left and got no replacement within {REPLACEMENT_SECONDS:.0f} s; "
                        "start workers with nannies, which replace lost workers, and fit again."
                    ) from None
            else:
                return


def sum_by_tree(items: list[Any]) -> Any:
    """Return the sum of items, group by group up a tree, as on the workers (:meth:`Cluster.total`)."""
    level = list(items)
    while len(level) > 1:
        level = [_sum(group) for group in _groups(level)]
    return level[0]


def _groups(items: list[Item]) -> list[list[Item]]:
    return [items[i : i + TREE_BRANCHES] for i in range(0, len(items), TREE_BRANCHES)]


def _sum(items: list[Any]) -> Any:
    """Return the sum of the items, in their order; of tuples, that of each place."""
    if isinstance(items[0], tuple):
        return tuple(_sum(list(each)) for each in zip(*items, strict=True))
    total = np.array(items[0])
    for item in items[1:]:
        total += item
    return total


def _is_large(value: object) -> bool:
    """Return whether a value or one of its parts is large: dask counts models, risks and functions as small."""
    from dask.sizeof import sizeof  # noqa: PLC0415 - an extra

    inside: tuple[object, ...] = value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        inside = tuple(getattr(value, each.name) for each in fields(value))
    elif isinstance(value, FunctionType):
        inside = tuple(cell.cell_contents for cell in value.__closure__ or ())
    return bool(sizeof(value) > SHARED_TASK_BYTES) or any(map(_is_large, inside))


def _identity(data: Item) -> Item:
    return data


def _item(items: Sequence[Item], place: int) -> Item:
    return items[place]
