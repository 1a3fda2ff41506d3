"""The application: endpoints, and the server with its worker processes."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tribit.checks import check_count
from tribit.errors import InvalidInputError, TribitWarning, parameter, quoted
from tribit.serve import pages
from tribit.serve.counters import METRICS_FOLDER_VARIABLE, Counters
from tribit.serve.hot_reload import HotReload, load_model
from tribit.serve.requests import (
    JSON,
    Handler,
    ServiceSettings,
    Threads,
    check_size,
    counted_handler,
    error_response,
    read_request,
)
from tribit.serve.schemas import NEUTRAL, PATH_WITH_QUERY, encode, endpoints

#: Maximum number of open connections of a worker. Further ones get a 503, so that clients cannot fill the memory.
MAX_CONNECTIONS = 1000
#: Maximum number of connections that the system queues until a worker accepts them.
BACKLOG = 2048
#: Time limit in seconds for open requests when the service stops.
SHUTDOWN_SECONDS = 10


class Service:
    """Endpoints of a service.

    Parameters
    ----------
    settings : ServiceSettings
        Model file, which is loaded here, and limits.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.counters = Counters()
        self.model = HotReload(settings.model, self.counters)
        self.threads = Threads()

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        handlers: dict[str, tuple[Handler, list[str]]] = {
            path: (
                self._question_handler(path),
                ["GET", "POST"] if path == PATH_WITH_QUERY else ["POST"],
            )
            for path in endpoints(NEUTRAL)
        }
        handlers |= {"/health": (self.health, ["GET"]), "/metrics": (self.metrics, ["GET"])}
        return [
            *(
                Route(path, counted_handler(path, self.counters, handler), methods=methods)
                for path, (handler, methods) in handlers.items()
            ),
            Route("/", self.index),
            Route("/docs", self.docs),
        ]

    def _question_handler(self, path: str) -> Handler:
        async def answer(request: Request) -> Response:
            endpoint = self.model.served.endpoints[path]
            fields = await read_request(request, endpoint, self.settings)
            served = self.model.served  # read once: a reload may replace it during the request
            check_size(fields, served.shape, self.settings)
            parsed = endpoint.make_question(fields, served.recommender)
            if served.is_quick(parsed):
                found = served.answer(parsed)
            else:
                found = await self.threads.run(served.answer, parsed)
            return Response(found, media_type=JSON)

        return answer

    async def index(self, _: Request) -> Response:
        """Return the page with a search box for a row."""
        return pages.response(pages.index_page(self.model.served))

    async def docs(self, _: Request) -> Response:
        """Return the page with the endpoints and their fields."""
        return pages.response(pages.docs_page(self.model.served.names))

    async def health(self, _: Request) -> Response:
        """Return version, shape and names of ids of the loaded model, and the problem with a newer file."""
        model = self.model
        rows, columns = model.served.shape
        loaded = datetime.datetime.fromtimestamp(model.loaded, datetime.UTC)
        answer = {
            "status": "ok" if model.problem is None else "stale",
            "model": model.version,
            "loaded": loaded.isoformat(timespec="seconds"),
            "rows": rows,
            "columns": columns,
            "names": model.served.names,
            "problem": model.problem,
        }
        return Response(encode(answer), media_type=JSON)

    async def metrics(self, _: Request) -> Response:
        """Return counts of requests, latencies and model versions in Prometheus's text format."""
        return Response(self.counters.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def create_app(settings: ServiceSettings) -> Starlette:
    """Return the application with its model loaded; while it runs, it reloads a replaced file."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        polling = asyncio.create_task(service.model.poll())
        yield
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling

    async def refuse(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        path = quoted(request.url.path)
        sentence = {
            404: f"There is no endpoint {path}; /docs lists them.",
            405: f"{path} does not accept {quoted(request.method)}; see /docs.",
        }.get(status, "The request cannot be answered.")
        service.counters.count("other", status, 0.0)
        return error_response(status, sentence)

    app = Starlette(
        routes=service.routes(), lifespan=lifespan, exception_handlers={HTTPException: refuse}
    )
    app.state.service = service
    return app


def app_of_worker() -> Starlette:
    """Return the application of a worker process."""
    warnings.simplefilter("ignore", TribitWarning)  # the field "basis" of an answer has the reason
    return create_app(ServiceSettings.from_environment())


def serve(
    settings: ServiceSettings,
    host: str,
    port: int,
    *,
    workers: int = 1,
    access_log: bool = False,
    ready: Callable[[str], None],
) -> None:
    """Run the service until a signal stops it.

    Parameters
    ----------
    settings : ServiceSettings
        Model file and limits.
    host : str
        Address to listen at.
    port : int
        Port; 0 for any free one.
    workers : int
        Number of processes that share the port. Each has the model in its own memory.
    access_log : bool
        Whether to log a line for each request.
    ready : callable
        Called with the address when the model is loaded, before the first request.
    """
    check_count("workers", workers)
    check_count("port", port, 0, 65535)
    warnings.simplefilter("ignore", TribitWarning)  # the field "basis" of an answer has the reason
    port = _check_address(host, port)
    with ExitStack() as stack:
        app: Starlette | str = "tribit.serve.app:app_of_worker"
        if workers == 1:
            app = create_app(settings)
        else:
            load_model(Path(settings.model))  # refuse a damaged file once, not in each worker
            folder = tempfile.TemporaryDirectory(prefix="tribit-serve-")
            os.environ[METRICS_FOLDER_VARIABLE] = stack.enter_context(folder)
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
            limit_concurrency=MAX_CONNECTIONS,
            backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            server_header=False,
            ws="none",
        )


def _check_address(host: str, port: int) -> int:
    """Return the port, a free one for 0; refuse an address at which the service cannot listen."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
            return int(trial.getsockname()[1])
    except OSError as error:
        raise InvalidInputError(
            f"The service cannot listen at {quoted(host)}, port {port} ({error.strerror or error}); choose another "
            f"{parameter('port')} or {parameter('host')}."
        ) from None
