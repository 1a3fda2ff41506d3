"""The application: endpoints, and the server with its worker processes."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import socket
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tribit.checks import check_count
from tribit.errors import InvalidInputError, TribitWarning, parameter, quoted
from tribit.serve import pages
from tribit.serve.access import Access, has_token
from tribit.serve.connections import Connections, server_options
from tribit.serve.counters import METRICS_FOLDER_VARIABLE, Counters
from tribit.serve.hot_reload import HotReload, load_model
from tribit.serve.requests import (
    JSON,
    LARGE_BODY,
    Handler,
    Threads,
    counted_handler,
    error_response,
    parse,
    read_request,
)
from tribit.serve.schemas import NEUTRAL, PATH_WITH_QUERY, encode, endpoints
from tribit.serve.settings import ServiceSettings

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
    may_wait : bool
        Whether the service waits for another file if this one cannot be loaded.
    """

    def __init__(self, settings: ServiceSettings, *, may_wait: bool = False) -> None:
        self.settings = settings
        self.counters = Counters()
        self.connections = Connections(settings, self.counters.count_closed)
        self.model = HotReload(
            settings.model, self.counters, max_items=settings.max_items, may_wait=may_wait
        )
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
            given = await read_request(request, self.settings)
            served = self.model.served  # read once: a reload may replace it during the request
            parts = given, served.endpoints[path], served, self.settings
            if len(given) > LARGE_BODY:
                parsed = await self.threads.run(parse, *parts)
            else:
                parsed = parse(*parts)
            if served.is_quick(parsed):
                found = served.answer(parsed)
            else:
                found = await self.threads.run(served.answer, parsed)
            return Response(found, media_type=JSON)

        return answer

    async def index(self, _: Request) -> Response:
        """Return the page with a search box for a row."""
        needs_token = self.settings.token_digest is not None
        return pages.response(pages.index_page(self.model.served, needs_token=needs_token))

    async def docs(self, _: Request) -> Response:
        """Return the page with the endpoints and their fields."""
        return pages.response(pages.docs_page(self.model.served.names))

    async def health(self, request: Request) -> Response:
        """Return version, shape and names of ids of the loaded model, and the problem with a newer file.

        Without the token, where one is needed, return the status alone.
        """
        model = self.model
        if not has_token(request.headers, self.settings):
            return Response(encode({"status": model.status}), media_type=JSON)
        rows, columns = model.served.shape
        loaded = datetime.datetime.fromtimestamp(model.loaded, datetime.UTC)
        answer = {
            "status": model.status,
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


def create_app(settings: ServiceSettings, *, may_wait: bool = False) -> Starlette:
    """Return the application with its model loaded; while it runs, it reloads a replaced file."""
    service = Service(settings, may_wait=may_wait)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Connections]]:
        if not service.model.is_loaded:
            with default_signals():
                await service.model.wait()
        polling = asyncio.create_task(service.model.poll())
        yield {"connections": service.connections}
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
        routes=service.routes(),
        lifespan=lifespan,
        middleware=[Middleware(Access, settings=settings, counters=service.counters)],
        exception_handlers={HTTPException: refuse},
    )
    app.state.service = service
    return app


def app_of_worker() -> Starlette:
    """Return the application of a worker process, which may be started again when the file is damaged."""
    warnings.simplefilter("ignore", TribitWarning)  # the field "basis" of an answer has the reason
    return create_app(ServiceSettings.from_environment(), may_wait=True)


@contextmanager
def default_signals() -> Iterator[None]:
    """Let signals end the process at once: before its model is loaded, a worker has no request to finish."""
    numbers = signal.SIGINT, signal.SIGTERM
    handlers = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


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
        Model file, limits and access rules. The service also trusts its own host.
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
    settings = replace(settings, hosts=(*settings.hosts, host))
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
            log_level="info" if access_log else "error",  # no line for each bad request
            access_log=access_log,
            backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            **server_options(settings),
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
