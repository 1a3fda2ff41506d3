"""Calls on the workers of a cluster: one task for each partition, and sums of what they return, by a tree.

A task is a pure function of a partition and of arrays that travel with it, and the partition itself is the result of
tasks that begin at its source. So whatever a worker held when it was lost is made again by the scheduler from what is
left, and no call here has to know of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitError,
    parameter,
    printable,
    quoted,
)

#: Results that are added in one task: the memory of a worker holds as many.
BRANCHES = 8
#: Bytes that cost less to send, or to add on this machine, than one more round of tasks: a few milliseconds.
FEW_BYTES = 2**20
#: Bytes from which what all tasks of a call share is a task of its own. dask would make it one from 100,000 bytes on,
#: but with the bare name of the keyword for a key: calls that are under way together would share the first one's.
LARGE = 50_000
#: Megabytes of arrays in one graph from which dask warns. Factors travel with the tasks that read them, so that a task
#: can be done again: they are as large as they are.
WARN_FROM = "distributed.admin.large-graph-warning-threshold"


#: Protocols of addresses that dask connects to, and those of them with certificates.
PROTOCOLS = ("tcp", "tls", "ucx", "ws", "wss")
SECURE = ("tls", "wss")


def distributed() -> ModuleType:
    """Return the package ``distributed``, or say how to install it."""
    if importlib.util.find_spec("distributed") is None:
        raise InvalidInputError(
            'A cluster needs dask.distributed, which is not installed; run pip install "tribit[dask]".'
        )
    return importlib.import_module("distributed")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to the scheduler at an address for as long as the block lasts."""
    module = distributed()
    found = re.fullmatch(r"(?:(\w+)://)?[^/]+:\d+", address)
    if found is None or found[1] not in (None, *PROTOCOLS):
        raise InvalidInputError(
            f"{quoted(address)}, given as {parameter('scheduler')}, is no address of a scheduler; give a host and a "
            "port, such as tcp://10.0.0.1:8786."
        )
    # Before there is a client: one that fails for want of certificates is in nobody's hands, and closes after 30 s.
    if found[1] in SECURE and not module.Security().get_connection_args("client")["ssl_context"]:
        raise InvalidInputError(
            f"{quoted(address)}, given as {parameter('scheduler')}, needs certificates, and dask knows of none here: "
            "name them in its configuration under distributed.comm.tls."
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


#: Seconds to wait for the first worker: a cluster that has just begun, or a worker that is started again, has none yet.
PATIENCE = 10.0
#: Seconds without an answer after which a fit ends if no worker is left. A nanny needs some seconds to replace one; a
#: batch system or a cloud that starts a machine needs minutes.
REPLACED = 300.0


#: What dask says of tasks that were written by another version of the software.
UNLIKE = "deserialization of the task graph"


class Cluster:
    """A client of a dask scheduler, as the backends use it.

    Parameters
    ----------
    client : distributed.Client
        Connected, and not asynchronous.
    """

    def __init__(self, client: Any) -> None:
        module = distributed()
        if not isinstance(client, module.Client) or client.asynchronous:
            raise InvalidTypeError(
                f"client is of type {type(client).__name__}; pass a distributed.Client that is not asynchronous."
            )
        if not client.scheduler_info(n_workers=1)["workers"]:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise InvalidInputError(
                    "The cluster of the client has no worker; start one with dask worker and the scheduler's address."
                ) from None
        self.client = client

    def map(self, function: Callable[..., Any], *lists: Iterable[Any], **same: Any) -> list[Any]:
        """Return futures of a function of one item of each list, and of what is the same for all of them.

        What is large and the same for all is a task of its own, which goes to one worker and from there to the others.
        It is part of the graph: unlike data that were scattered, it is there again after its worker was lost.
        """
        import dask  # noqa: PLC0415 - an extra

        with dask.config.set({WARN_FROM: "1TB"}):
            given = {
                name: self.client.submit(_same, value, pure=False) if _is_large(value) else value
                for name, value in same.items()
            }
            found: list[Any] = self.client.map(function, *lists, pure=False, **given)
        return found

    def spread(self, pieces: list[Any]) -> list[Any]:
        """Return futures of arrays that several calls read; few bytes stay as they are and go with each call."""
        if sum(piece.nbytes for piece in pieces) <= FEW_BYTES:
            return pieces
        return self.map(_same, pieces)

    def merged(self, function: Callable[[list[Any]], Any], futures: Sequence[Any]) -> Any:
        """Return a future of what a function makes of results in their order, group by group up a tree."""
        level = list(futures)
        while len(level) > 1:
            level = [self.client.submit(function, group, pure=False) for group in _groups(level)]
        return level[0]

    def total(self, futures: Sequence[Any], n_bytes: int) -> Any:
        """Return the sum of arrays, or of each of several arrays, of so many bytes each.

        It is made by a tree of fixed order, on the workers unless it is small: the bits are the same.
        """
        if n_bytes * len(futures) <= FEW_BYTES:
            return added(self.results(futures))
        return self.results(self.merged(_sum, futures))

    def own_and_total(self, futures: Sequence[Any], n_bytes: int) -> tuple[list[Any], Any]:
        """Return the first halves of results that are pairs, and the sum of the second, of so many bytes each."""
        if n_bytes * len(futures) <= FEW_BYTES:
            first, second = zip(*self.results(futures), strict=True)
            return list(first), added(list(second))
        own = self.map(_picked, futures, place=0)
        shared = self.merged(_sum, self.map(_picked, futures, place=1))
        found: list[Any] = self.results([own, shared])
        return found[0], found[1]

    def results(self, futures: Any) -> Any:
        """Wait for futures and return what they hold, in the same nesting."""
        from distributed import KilledWorker  # noqa: PLC0415 - an extra

        try:
            self._wait(futures)
            return self.client.gather(futures)
        except CancelledError as error:
            raise TribitError(
                "The connection to the scheduler of the cluster was lost in the middle of a fit, and with it what the "
                "workers held; see that the scheduler is up, and fit again."
            ) from error
        except (ImportError, RuntimeError) as error:
            if not isinstance(error, ImportError) and UNLIKE not in str(error):
                raise
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise TribitError(
                f"The scheduler or a worker of the cluster could not load a task ({printable(reason)}); install "
                "the same versions of tribit and of what it needs on all machines."
            ) from error
        except KilledWorker as error:
            raise TribitError(
                f"Every worker that tried a task of the fit was killed ({error}), most likely for want of memory: cut "
                f"the table into more partitions ({parameter('n_partitions')}), or give workers more memory."
            ) from error

    def _wait(self, futures: Any) -> None:
        """Wait for futures as long as there are workers, or for new ones for a while."""
        import distributed  # noqa: PLC0415 - an extra

        untyped: Any = distributed
        pending = untyped.futures_of(futures)
        while True:
            try:
                with self.client.as_current():
                    untyped.wait(pending, timeout=REPLACED)
            except TimeoutError:
                if not self.client.scheduler_info(n_workers=1)["workers"]:
                    raise TribitError(
                        f"The cluster has no worker left, and got no other within {REPLACED:.0f} s; start workers with "
                        "nannies, which replace those that are lost, and fit again."
                    ) from None
            else:
                return


def added(items: list[Any]) -> Any:
    """Return what :meth:`Cluster.total` would: the sum of items, group by group up a tree."""
    level = list(items)
    while len(level) > 1:
        level = [_sum(group) for group in _groups(level)]
    return level[0]


def _groups(items: list[Any]) -> list[list[Any]]:
    return [items[i : i + BRANCHES] for i in range(0, len(items), BRANCHES)]


def _sum(items: list[Any]) -> Any:
    """Return the sum of the items, in their order; of tuples, that of each place."""
    if isinstance(items[0], tuple):
        return tuple(_sum(list(each)) for each in zip(*items, strict=True))
    total = np.array(items[0])
    for item in items[1:]:
        total += item
    return total


def _is_large(value: Any) -> bool:
    """Return whether a value has many bytes, or something in it: to dask models, risks and functions are small."""
    from dask.sizeof import sizeof  # noqa: PLC0415 - an extra

    inside: tuple[Any, ...] = value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        inside = tuple(getattr(value, each.name) for each in fields(value))
    elif isinstance(value, FunctionType):
        inside = tuple(cell.cell_contents for cell in value.__closure__ or ())
    return bool(sizeof(value) > LARGE) or any(map(_is_large, inside))


def _same(data: Any) -> Any:
    return data


def _picked(items: Any, place: int) -> Any:
    return items[place]
