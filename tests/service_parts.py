"""Recommenders for the tests of the service."""

import asyncio
import os
import re
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import uvicorn
from starlette.testclient import TestClient

from tribit import BinaryMatrixCompletion, Observations, Recommender
from tribit.data.reading import Reading
from tribit.serve.app import create_app
from tribit.serve.connections import protocol, server_options
from tribit.serve.settings import ServiceSettings

FIXED = {"gammas": (1, 0, 0), "rank": 2, "l2": 1.0, "l2_intercept": 1.0, "l2_implicit": 2.0}
FIXED |= {"implicit_features": True, "radius": None, "n_jobs": 1, "random_state": 0}
SHAPE = (40, 25)


def simulated(seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((SHAPE[0], 2)), rng.standard_normal((SHAPE[1], 2))
    labels = np.where(rng.random(SHAPE) < 1 / (1 + np.exp(-2 * U @ V.T)), 1, -1)
    return np.where(rng.random(SHAPE) < 0.4, labels, 0)


def fitted(seed=0, *, ids=True, **options):
    A = simulated(seed)
    i, j = np.nonzero(A)
    names = {
        False: (None, None),
        True: ([f"r{n}" for n in range(SHAPE[0])], [f"c{n}" for n in range(SHAPE[1])]),
        "numbers": (range(100, 100 + SHAPE[0]), range(200, 200 + SHAPE[1])),
    }[ids]
    seen = Observations(i, j, A[i, j], SHAPE, *names)
    recommender = Recommender(BinaryMatrixCompletion(**FIXED), random_state=0, **options).fit(seen)
    recommender.reading_ = Reading(row="user", column="item", value="stars", like_at=4)
    return recommender


def client_of(path, **settings):
    """Return a client of a service; without ``with``, the file is checked when the test says so."""
    app = create_app(ServiceSettings(str(path), **settings))
    return TestClient(app, base_url="http://localhost")


class Running:
    """A service that listens: its port, its parts, and requests to it."""

    def __init__(self, port, service):
        self.port, self.service = port, service

    async def connect(self, source="127.0.0.1"):
        """Return a reader and a writer of a connection from an address."""
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))

    async def ask(self, n, source="127.0.0.1", pause=0.0):
        """Return the statuses of n requests of an honest client, on one connection."""
        reader, writer = await self.connect(source)
        statuses = []
        for _ in range(n):
            writer.write(b"GET /recommend?row=r3 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses.append((await read_answer(reader))[0])
            await asyncio.sleep(pause)
        writer.close()
        return statuses

    def closed(self, reason):
        """Return the number of connections that were closed for a reason."""
        text = self.service.counters.text().decode()
        found = re.search(rf'closed_total{{reason="{reason}"}} (\d+)', text)
        return int(found[1]) if found else 0


async def read_answer(reader):
    """Return status and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return int(head[9:12]), await reader.readexactly(int(length[1]))


@asynccontextmanager
async def running(path, connection=protocol, **settings):
    """Run a service in this process, with the options of ``tribit serve``."""
    settings = ServiceSettings(str(path), **settings)
    app = create_app(settings)
    options = {**server_options(settings), "http": connection, "log_level": "critical"}
    server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **options))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield Running(listening.getsockname()[1], app.state.service)
        finally:
            server.should_exit = True
            await task


def replace_file(path: Path, content: bytes) -> None:
    """Put other bytes in the place of a file, by a rename."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    os.replace(other, path)  # noqa: PTH105
