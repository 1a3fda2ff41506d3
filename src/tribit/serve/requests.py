"""Requests: limits of a service, reading and checking a body or a query, long requests in threads, and errors."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import ParamSpec, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tribit.checks import check_count, check_field, check_positive
from tribit.errors import TribitError, UnknownIdError, printable, quoted
from tribit.serve.counters import Counters
from tribit.serve.schemas import Endpoint, encode

logger = logging.getLogger(__name__)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

JSON = "application/json"
#: Environment variable with the settings of a worker process.
SETTINGS_VARIABLE = "TRIBIT_SERVE_SETTINGS"


@dataclass(frozen=True)
class ServiceSettings:
    """Model file and limits of a service.

    Parameters
    ----------
    model : str
        Path of a saved recommender.
    max_body : int
        Maximum number of bytes of a body, and of a query.
    max_pairs : int
        Maximum number of pairs of a request, and of columns in all its lists.
    max_rows, max_entries, max_n : int
        Maximum number of rows of a request, known or new; of entries and of columns in it; of columns in a list.
    body_seconds : float
        Time limit for the arrival of a body.
    """

    model: str
    max_body: int = 2**20
    max_pairs: int = 10_000
    max_rows: int = 1000
    max_entries: int = 10_000
    max_n: int = 1000
    body_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("max_body", "max_pairs", "max_rows", "max_entries", "max_n"):
            check_field(self, name, check_count)
        check_field(self, "body_seconds", check_positive)

    def to_environment(self) -> None:
        """Set the environment variable that worker processes inherit."""
        os.environ[SETTINGS_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of the parent process."""
        return cls(**json.loads(os.environ[SETTINGS_VARIABLE]))


class RefusedError(Exception):
    """A refused request.

    Parameters
    ----------
    status : int
        HTTP status of the response.
    sentence : str
        Error message.
    close : bool
        Whether to close the connection because its body was not read.
    """

    def __init__(self, status: int, sentence: str, *, close: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.close = status, close


class Threads:
    """Thread pool for long requests, with a bounded queue: short requests do not wait for long ones.

    Parameters
    ----------
    n_threads : int
        Number of threads. An explanation of a row with thousands of entries takes a second or more.
    max_pending : int
        Maximum number of requests that run or wait. Beyond that a client would time out before its answer.
    """

    def __init__(self, n_threads: int = 2, max_pending: int = 32) -> None:
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="tribit-serve")
        self.max_pending, self._pending = max_pending, 0

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Return the result of a function, or refuse if the queue is full."""
        if self._pending >= self.max_pending:
            raise RefusedError(503, "Too many long requests are waiting; try again in a second.")
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))
        finally:
            self._pending -= 1


def counted_handler(path: str, counters: Counters, answer: Handler) -> Handler:
    """Return a handler that counts each request and turns an exception into an error response."""

    async def handle(request: Request) -> Response:
        start = time.perf_counter()
        status = 500
        try:
            response = await answer(request)
            status = response.status_code
            return response
        except Exception as error:
            response = response_to_exception(error)
            status = response.status_code
            return response
        finally:
            counters.count(path, status, time.perf_counter() - start)

    return handle


def response_to_exception(error: Exception) -> Response:
    """Return the error response to an exception, without a traceback."""
    if isinstance(error, RefusedError):
        return error_response(error.status, str(error), close=error.close)
    if isinstance(error, ValidationError):
        return _invalid_fields(error)
    if isinstance(error, UnknownIdError):
        return error_response(404, str(error))
    if isinstance(error, TribitError):
        return error_response(422, str(error))
    logger.error("A request failed.", exc_info=error)
    return error_response(500, "The service failed on this request; its log has the reason.")


def error_response(status: int, sentence: str, *, close: bool = False) -> Response:
    """Return ``{"error": sentence}``."""
    headers = {"connection": "close"} if close else {}
    if status == 503:
        headers["retry-after"] = "1"
    return Response(encode({"error": printable(sentence)}), status, headers, JSON)


def _invalid_fields(error: ValidationError) -> Response:
    """Return the first error in the fields of a request, with the number of further errors."""
    details = error.errors(include_url=False, include_context=False, include_input=True)
    first = details[0]
    if first["type"] == "json_invalid":
        reason = first["msg"].removeprefix("Invalid JSON: ")
        return error_response(400, f"The body is not JSON ({reason}); send an object as in /docs.")
    path = ".".join(map(str, first["loc"]))
    where = f"{printable(path)}: " if path else ""
    got = f"; got {quoted(first['input'])}" if first["type"] != "missing" else ""
    message = first["msg"][:1].lower() + first["msg"][1:]
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    return error_response(422, f"{where}{message}{got}{more}; /docs has an example.")


async def read_request(
    request: Request, endpoint: Endpoint, settings: ServiceSettings
) -> BaseModel:
    """Return the checked fields of a body or a query."""
    if request.method == "POST":
        return endpoint.read_json(await _read_body(request, settings))
    query = request.scope["query_string"]
    if len(query) > settings.max_body:
        raise RefusedError(
            414, f"The query has more than {settings.max_body} bytes; send less, or a body."
        )
    try:
        fields = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise RefusedError(400, "The query is not UTF-8; percent-encode it as UTF-8.") from None
    return endpoint.read_query(fields)


async def _read_body(request: Request, settings: ServiceSettings) -> bytes:
    """Return the body of a request within the limits of size and time."""
    limit = settings.max_body
    too_large = RefusedError(
        413, f"The body has more than {limit} bytes; send fewer at once.", close=True
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        seconds = settings.body_seconds
        raise RefusedError(
            408, f"The body did not arrive within {seconds:g} s; send it at once.", close=True
        ) from None
    except ClientDisconnect:
        raise RefusedError(400, "The connection ended before the body.", close=True) from None
    return b"".join(parts)


def check_size(fields: BaseModel, shape: tuple[int, int], settings: ServiceSettings) -> None:
    """Refuse a request whose fields, or whose answer, exceed the limits."""
    values = fields.__dict__
    sizes = {name: len(value) for name, value in values.items() if isinstance(value, list)}
    limits = {"pairs": settings.max_pairs, "rows": settings.max_rows}
    for name, size in sizes.items():
        _check_limit(name, size, limits.get(name, settings.max_entries))
    n = values.get("n") or 0
    _check_limit("columns in a list (n)", n, settings.max_n)
    if "entries" in sizes:
        sizes["rows"] = max(1, len({entry.row for entry in values["entries"]}))
        _check_limit("rows", sizes["rows"], settings.max_rows)
    n_lists = sizes.get("rows", 0) or sizes.get("columns", 0)
    length = min(n, max(shape)) if "n" in values else sizes.get("columns", shape[1])
    _check_limit("columns in all lists", n_lists * length, settings.max_pairs)


def _check_limit(name: str, number: int, limit: int) -> None:
    if number > limit:
        raise RefusedError(413, f"{number} {name} are more than {limit}; send fewer at once.")
