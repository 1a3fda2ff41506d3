"""The endpoints: from a checked request to the answer of the model that serves now."""

from __future__ import annotations

import asyncio
import datetime
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tribit.errors import TribitWarning, quoted
from tribit.serve.answers import encode
from tribit.serve.counters import Counters
from tribit.serve.handling import JSON, Threads, check_size, error_answer, handler, read
from tribit.serve.hot_reload import HotReload
from tribit.serve.pages import HEADERS, manual, openapi
from tribit.serve.schemas import BY_QUERY, ENDPOINTS, Endpoint
from tribit.serve.settings import ServiceSettings


class Service:
    """The answers of a service.

    Parameters
    ----------
    settings : ServiceSettings
        The model, which is loaded here, and the limits.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.counters = Counters()
        self.model = HotReload(settings.model, self.counters)
        self.threads = Threads()

    def routes(self) -> list[Route]:
        """Return the endpoints."""
        found = []
        for path, endpoint in ENDPOINTS.items():
            methods = ["GET", "POST"] if path == BY_QUERY else ["POST"]
            found.append(self._route(path, self._asker(endpoint), methods))
        others = {"/health": self.health, "/metrics": self.metrics}
        found += [self._route(path, answer, ["GET"]) for path, answer in others.items()]
        return [*found, Route("/docs", _docs), Route("/openapi.json", _openapi)]

    def _route(
        self, path: str, answer: Callable[[Request], Awaitable[Response]], methods: list[str]
    ) -> Route:
        return Route(path, handler(path, self.counters, answer), methods=methods)

    def _asker(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def ask(request: Request) -> Response:
            given = await read(request, endpoint, self.settings)
            served = self.model.served  # once: the next may be another
            check_size(given, served.shape, self.settings)
            asked = endpoint.make_question(given, served.recommender)
            quick = served.is_quick(asked)
            answer = served.answer(asked) if quick else await self.threads.run(served.answer, asked)
            return Response(answer, media_type=JSON)

        return ask

    async def health(self, _: Request) -> Response:
        """Whether the service answers, by which model, and whether the file holds another."""
        model = self.model
        rows, columns = model.served.shape
        loaded = datetime.datetime.fromtimestamp(model.loaded, datetime.UTC)
        answer = {
            "status": "ok" if model.problem is None else "stale",
            "model": model.version,
            "loaded": loaded.isoformat(timespec="seconds"),
            "rows": rows,
            "columns": columns,
            "problem": model.problem,
        }
        return Response(encode(answer), media_type=JSON)

    async def metrics(self, _: Request) -> Response:
        """Numbers of requests, seconds and models in the text format of Prometheus."""
        return Response(self.counters.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _docs(_: Request) -> Response:
    return HTMLResponse(manual(), headers=HEADERS)


async def _openapi(_: Request) -> Response:
    return Response(encode(openapi()), media_type=JSON)


def create_app(settings: ServiceSettings) -> Starlette:
    """Return the application with its model loaded; while it runs it reloads a file that is replaced."""
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
            404: f"There is nothing at {path}; /docs lists the endpoints.",
            405: f"{path} does not take {quoted(request.method)}; see /docs.",
        }.get(status, "The request cannot be answered.")
        service.counters.count("other", status, 0.0)
        return error_answer(status, sentence)

    app = Starlette(
        routes=service.routes(), lifespan=lifespan, exception_handlers={HTTPException: refuse}
    )
    app.state.service = service
    return app


def from_environment() -> Starlette:
    """Return the application of a worker process."""
    warnings.simplefilter("ignore", TribitWarning)  # the basis of an answer says it
    return create_app(ServiceSettings.from_environment())
