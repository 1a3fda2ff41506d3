"""One request from its first byte to its answer: limits, checks, one-sentence errors, and a count."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tribit.errors import TribitError, UnknownIdError, printable, quoted
from tribit.serve.answers import encode
from tribit.serve.counters import Counters
from tribit.serve.schemas import Endpoint
from tribit.serve.settings import ServiceSettings

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]

#: Threads for long questions, and how many of these may wait: with more, an answer would come too late to be read. An
#: explanation of a row with thousands of entries takes a second or more.
THREADS, WAITING = 2, 32
JSON = "application/json"


class RefusedError(Exception):
    """A request that is not answered: its status, and one sentence.

    Parameters
    ----------
    status : int
        Status of the answer.
    sentence : str
        What is wrong.
    close : bool
        Whether the connection must end because its body was not read.
    """

    def __init__(self, status: int, sentence: str, *, close: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.close = status, close


class Threads:
    """Threads for long questions, so that short ones need not wait for them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tribit-serve")
        self._waiting = 0

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return what the function returns, or refuse where too many wait."""
        if self._waiting >= WAITING:
            raise RefusedError(503, "Too many long requests are waiting; try again in a second.")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, function, *arguments)
        finally:
            self._waiting -= 1


def handler(
    path: str,
    counters: Counters,
    answer: Callable[[Request], Awaitable[Response]],
) -> Handler:
    """Return a handler that answers or says what is wrong, never with a traceback, and counts the request."""

    async def handle(request: Request) -> Response:
        began = time.perf_counter()
        status = 500
        try:
            response = await answer(request)
            status = response.status_code
            return response
        except Exception as error:
            response = refusal(error)
            status = response.status_code
            return response
        finally:
            counters.count(path, status, time.perf_counter() - began)

    return handle


def refusal(error: Exception) -> Response:
    """Return the answer that says what was wrong with a request, or that the service is at fault."""
    if isinstance(error, RefusedError):
        return error_answer(error.status, str(error), close=error.close)
    if isinstance(error, ValidationError):
        return _invalid(error)
    if isinstance(error, UnknownIdError):
        return error_answer(404, str(error))
    if isinstance(error, TribitError):
        return error_answer(422, str(error))
    logger.error("A request failed.", exc_info=error)
    return error_answer(500, "The service failed at this request; its log says why.")


def error_answer(status: int, sentence: str, *, close: bool = False) -> Response:
    """Return ``{"error": sentence}``."""
    headers = {"connection": "close"} if close else {}
    if status == 503:
        headers["retry-after"] = "1"
    return Response(encode({"error": printable(sentence)}), status, headers, JSON)


def _invalid(error: ValidationError) -> Response:
    """Return the first thing that is wrong with the fields of a request."""
    details = error.errors(include_url=False, include_context=False, include_input=True)
    first = details[0]
    if first["type"] == "json_invalid":
        reason = first["msg"].removeprefix("Invalid JSON: ")
        return error_answer(400, f"The body is no JSON ({reason}); send an object as in /docs.")
    place = [str(part) for part in first["loc"]]
    where = f"{printable('.'.join(place))}: " if place else ""
    got = f"; got {quoted(first['input'])}" if first["type"] != "missing" else ""
    message = first["msg"][:1].lower() + first["msg"][1:]
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    return error_answer(422, f"{where}{message}{got}{more}; /docs has an example.")


async def read(request: Request, endpoint: Endpoint, settings: ServiceSettings) -> BaseModel:
    """Return the checked request in a body or in a query."""
    if request.method == "POST":
        return endpoint.read_json(await _body(request, settings))
    query = request.scope["query_string"]
    if len(query) > settings.max_body:
        raise RefusedError(
            414, f"The query has more than {settings.max_body} bytes; send less, or a body."
        )
    try:
        fields = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise RefusedError(400, "The query is no UTF-8; escape it as URLs are.") from None
    return endpoint.read_query(fields)


def check_size(given: BaseModel, shape: tuple[int, int], settings: ServiceSettings) -> None:
    """Refuse a request whose lists, or whose answer, are longer than the limits."""
    values = given.__dict__
    sizes = {name: len(value) for name, value in values.items() if isinstance(value, list)}
    limits = {"pairs": settings.max_pairs, "rows": settings.max_rows}
    for name, size in sizes.items():
        _check_limit(name, size, limits.get(name, settings.max_entries))
    n = values.get("n") or 0
    _check_limit("columns in a list (n)", n, settings.max_n)
    if "entries" in sizes:
        sizes["rows"] = max(1, len({entry.row for entry in values["entries"]}))
        _check_limit("rows", sizes["rows"], settings.max_rows)
    asked = sizes.get("rows", 0) or sizes.get("columns", 0)
    each = min(n, max(shape)) if "n" in values else sizes.get("columns", shape[1])
    _check_limit("columns in all lists", asked * each, settings.max_pairs)


def _check_limit(name: str, number: int, limit: int) -> None:
    if number > limit:
        raise RefusedError(413, f"{number} {name} are more than {limit}; ask for fewer at once.")


async def _body(request: Request, settings: ServiceSettings) -> bytes:
    """Return the whole body, if it is short enough and comes in time."""
    limit = settings.max_body
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise RefusedError(
            408,
            f"The body did not come in {settings.body_seconds:g} s; send it at once.",
            close=True,
        ) from None
    except ClientDisconnect:
        raise RefusedError(400, "The connection ended before the body did.", close=True) from None
    return b"".join(parts)


def _too_large(limit: int) -> RefusedError:
    return RefusedError(
        413, f"The body has more than {limit} bytes; ask for less at once.", close=True
    )
