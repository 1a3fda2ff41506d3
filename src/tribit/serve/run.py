"""The server: one socket, and as many worker processes as are asked for."""

from __future__ import annotations

import os
import socket
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvicorn

from tribit.checks import check_count
from tribit.errors import InvalidInputError, TribitWarning, parameter, quoted
from tribit.serve.app import create_app
from tribit.serve.counters import FOLDER
from tribit.serve.hot_reload import load
from tribit.serve.settings import ServiceSettings

#: Connections that a worker holds at once; the next ones get a 503, so that none can fill the memory.
CONNECTIONS = 1000
#: Connections that the system keeps until a worker takes them.
BACKLOG = 2048
#: Seconds that requests have to end when the service is stopped.
GRACE = 10


def serve(
    settings: ServiceSettings,
    host: str,
    port: int,
    *,
    workers: int = 1,
    access_log: bool = False,
    ready: Callable[[str], None],
) -> None:
    """Answer until a signal comes.

    Parameters
    ----------
    settings : ServiceSettings
        The model and the limits.
    host : str
        Address to listen at.
    port : int
        Port; 0 for any free one.
    workers : int
        Processes that share the port, each with a model of its own in memory.
    access_log : bool
        Whether to log a line for each request.
    ready : callable
        Called with the address when the model is loaded, before the first request.
    """
    check_count("workers", workers)
    check_count("port", port, 0, 65535)
    warnings.simplefilter("ignore", TribitWarning)  # the basis of an answer says it
    port = _free_port(host, port)
    with ExitStack() as stack:
        app: Any = "tribit.serve.app:from_environment"
        if workers == 1:
            app = create_app(settings)
        else:
            load(Path(settings.model))  # a damaged file is refused once, and not by every worker
            folder = tempfile.TemporaryDirectory(prefix="tribit-serve-")
            os.environ[FOLDER] = stack.enter_context(folder)
            settings.to_environment()
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        uvicorn.run(
            app,
            factory=workers > 1,
            host=host,
            port=port,
            workers=workers,
            log_level="info" if access_log else "warning",
            access_log=access_log,
            limit_concurrency=CONNECTIONS,
            backlog=BACKLOG,
            timeout_graceful_shutdown=GRACE,
            server_header=False,
            ws="none",
        )


def _free_port(host: str, port: int) -> int:
    """Return the port, any free one for 0, or say in one sentence why nothing can listen there."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
            return int(trial.getsockname()[1])
    except OSError as error:
        raise InvalidInputError(
            f"Nothing can listen at {quoted(host)}, port {port} ({error.strerror or error}); choose another "
            f"{parameter('port')} or {parameter('host')}."
        ) from None
