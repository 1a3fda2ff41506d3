"""The endpoints: from a checked request to the answer of the model that serves now."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tribit import __version__
from tribit.errors import InvalidInputError
from tribit.quoting import quoted
from tribit.serve.counters import Counters
from tribit.serve.encoding import encoded
from tribit.serve.handling import JSON, RefusedError, Threads, asked, error_answer, handler
from tribit.serve.openapi import DESCRIPTION, document
from tribit.serve.schemas import (
    ExplainRequest,
    FoldInRequest,
    PredictRequest,
    RecommendRequest,
)
from tribit.serve.served import ServedModel, Wanted
from tribit.serve.settings import ServiceSettings
from tribit.serve.watched import WatchedModel

#: Cells that the event loop scores by itself, and pairs that it predicts: 5 ms or so. A thread would take longer to
#: begin, and what is larger would keep the others waiting.
QUICK_CELLS, QUICK_PAIRS = 2**13, 500


class Service:
    """The answers of a service, one method for each endpoint.

    Parameters
    ----------
    settings : ServiceSettings
        The model, which is loaded here, and the limits.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.counters = Counters(settings.counters)
        self.watched = WatchedModel(settings.model, self.counters)
        self.threads = Threads()

    @property
    def served(self) -> ServedModel:
        """The model that answers now; a request takes it once."""
        return self.watched.served

    async def predict(self, request: Request) -> Response:
        """Probability of a like for pairs of rows and columns, and what it rests on."""
        wanted: PredictRequest = await asked(request, PredictRequest, self.settings)
        self._check_many("pairs", len(wanted.pairs), self.settings.max_pairs)
        ids = [pair.row for pair in wanted.pairs], [pair.column for pair in wanted.pairs]
        if len(wanted.pairs) <= QUICK_PAIRS:
            return Response(self.served.predictions(*ids), media_type=JSON)
        return Response(await self.threads.run(self.served.predictions, *ids), media_type=JSON)

    async def recommend(self, request: Request) -> Response:
        """Best columns for each row, none of which it has seen; of rows that nobody knows the most popular ones."""
        given: RecommendRequest = await asked(request, RecommendRequest, self.settings)
        self._check_many("rows", len(given.rows), self.settings.max_rows)
        self._check_many("columns in a list (n)", given.n, self.settings.max_n)
        wanted = Wanted(
            given.n, given.avoid_dislikes, given.exclude_seen, given.ranker, given.level
        )
        served = self.served
        listed = len(given.rows) * min(given.n, served.shape[1])
        self._check_many("columns in all lists", listed, self.settings.max_pairs)
        if served.is_quick(given.rows, wanted, QUICK_CELLS):
            return Response(served.lists(given.rows, wanted), media_type=JSON)
        answer = await self.threads.run(served.lists, given.rows, wanted)
        return Response(answer, media_type=JSON)

    async def explain(self, request: Request) -> Response:
        """Parts of a score, and which entries of the row pulled it up or down."""
        cell: ExplainRequest = await asked(request, ExplainRequest, self.settings)
        answer = await self.threads.run(self.served.explanation, cell.row, cell.column, cell.n)
        return Response(answer, media_type=JSON)

    async def fold_in(self, request: Request) -> Response:
        """List and probabilities of somebody new from their entries, of which nothing is kept."""
        new: FoldInRequest = await asked(request, FoldInRequest, self.settings)
        self._check_many("entries", len(new.entries), self.settings.max_entries)
        self._check_many("columns", len(new.columns), self.settings.max_entries)
        self._check_many("columns in a list (n)", new.n, self.settings.max_n)
        served = self.served
        columns = [entry.column for entry in new.entries]
        labels = labels_of(served, new)
        wanted = Wanted(new.n, new.avoid_dislikes, ranker=new.ranker)
        answer = await self.threads.run(served.folded, columns, labels, wanted, new.columns)
        return Response(answer, media_type=JSON)

    async def health(self, _: Request) -> Response:
        """Whether the service answers, by which model, and whether the file holds another."""
        watched, served = self.watched, self.served
        rows, columns = served.shape
        loaded = datetime.datetime.fromtimestamp(watched.loaded, datetime.UTC)
        answer = {
            "status": "ok" if watched.problem is None else "stale",
            "model": served.version,
            "loaded": loaded.isoformat(timespec="seconds"),
            "rows": rows,
            "columns": columns,
            "problem": watched.problem,
        }
        return Response(encoded(answer), media_type=JSON)

    async def metrics(self, _: Request) -> Response:
        """Numbers of requests, seconds and models in the text format of Prometheus."""
        watched = self.watched
        text = self.counters.text(watched.served.version, watched.loaded, watched.problem)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @staticmethod
    def _check_many(what: str, number: int, limit: int) -> None:
        if number > limit:
            raise RefusedError(
                413, f"{number} {what} are more than {limit}; ask for fewer at once."
            )


def labels_of(served: ServedModel, new: FoldInRequest) -> list[int]:
    """Return +1 or -1 for each entry; ratings by the bar of the fit."""
    reading = served.bundle.reading_
    bar = served.bundle.model_.like_at if reading is None else reading.like_at
    labels: list[int] = []
    for entry in new.entries:
        if (entry.label is None) == (entry.value is None):
            raise InvalidInputError(
                f"The entry in the column {quoted(entry.column)} needs either a label (1 or -1) or a value (a rating)."
            )
        if entry.value is not None and bar is None:
            raise InvalidInputError(
                "The model was not fitted on ratings, so that it knows of no bar for a like; send labels, 1 or -1."
            )
        labels.append(entry.label or (1 if entry.value >= bar else -1))  # type: ignore[operator]
    return labels


def create_app(settings: ServiceSettings) -> FastAPI:
    """Return the application, with its model loaded; it looks after the file while it runs."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.watched.watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    app = FastAPI(title="tribit", version=__version__, description=DESCRIPTION, lifespan=lifespan)
    app.state.service = service
    document(app, service)

    async def lost(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        path = quoted(request.url.path)
        sentence = {
            404: f"There is nothing at {path}; /docs lists what there is.",
            405: f"{path} does not take {quoted(request.method)}; /docs says what it takes.",
        }.get(status, "The request cannot be answered.")
        service.counters.answered("other", status, 0.0)
        return error_answer(status, sentence)

    app.add_exception_handler(HTTPException, lost)
    return app


def from_environment() -> Any:
    """Return the application of a worker process."""
    return create_app(ServiceSettings.from_environment())


__all__ = ["Service", "create_app", "from_environment", "handler"]
