"""Requests: reading and checking a body or a query, long requests in threads, and errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeAlias, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tribit.errors import TribitError, UnknownIdError, printable, quoted
from tribit.serve.counters import Counters
from tribit.serve.schemas import Endpoint, ParsedQuestion, encode
from tribit.serve.served_model import ServedModel
from tribit.serve.settings import ServiceSettings

logger = logging.getLogger(__name__)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

JSON = "application/json"
#: Bytes of a body above which it is parsed in a thread, and its structure is checked before.
LARGE_BODY = 2**16
#: Number of errors above which none is described.
MAX_LISTED_ERRORS = 100
#: Maximum number of fields of an item of a list: those of an entry, and one.
MAX_FIELDS_OF_ITEM = 5
#: A body, or the values of a query by name.
Given: TypeAlias = bytes | dict[str, list[str]]


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
    headers = {"x-content-type-options": "nosniff"}
    if close:
        headers["connection"] = "close"
    if status == 503:
        headers["retry-after"] = "1"
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(encode({"error": printable(sentence)}), status, headers, JSON)


def _invalid_fields(error: ValidationError) -> Response:
    """Return the first error in the fields of a request, with the number of further errors."""
    number = error.error_count()
    if number > MAX_LISTED_ERRORS:  # the list of them would be larger than the request
        return error_response(422, f"The body has {number} errors; /docs has an example.")
    first = error.errors(include_url=False, include_input=True)[0]
    if first["type"] == "json_invalid":
        reason = first["msg"].removeprefix("Invalid JSON: ")
        return error_response(400, f"The body is not JSON ({reason}); send an object as in /docs.")
    path = ".".join(map(str, first["loc"]))
    if first["type"] == "too_long":
        limit = first["ctx"]["max_length"]
        return error_response(413, f"There are more than {limit} {path}; send fewer at once.")
    where = f"{printable(path)}: " if path else ""
    got = f"; got {quoted(first['input'])}" if first["type"] != "missing" else ""
    message = first["msg"][:1].lower() + first["msg"][1:]
    more = f" ({number - 1} more)" if number > 1 else ""
    return error_response(422, f"{where}{message}{got}{more}; /docs has an example.")


async def read_request(request: Request, settings: ServiceSettings) -> Given:
    """Return the body of a request, or the values of its query."""
    if request.method == "POST":
        _check_content_type(request.headers.get("content-type", ""))
        return await _read_body(request, settings)
    query = request.scope["query_string"]
    if len(query) > settings.max_body:
        raise RefusedError(
            414, f"The query has more than {settings.max_body} bytes; send less, or a body."
        )
    try:
        return parse_qs(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=settings.max_items,
        )
    except UnicodeError:
        raise RefusedError(400, "The query is not UTF-8; percent-encode it as UTF-8.") from None
    except ValueError:
        raise RefusedError(
            413, f"The query has more than {settings.max_items} fields; send fewer at once."
        ) from None


def _check_content_type(given: str) -> None:
    """Refuse a body that is not declared as JSON: a page of another site can send other types without being asked."""
    kind = given.partition(";")[0].strip().lower()
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        raise RefusedError(
            415, f"The body must be JSON, with the header Content-Type: {JSON} (curl --json)."
        )


def parse(
    given: Given, endpoint: Endpoint, served: ServedModel, settings: ServiceSettings
) -> ParsedQuestion:
    """Return the question of a body or a query within the limits."""
    if isinstance(given, bytes):
        _check_structure(given, settings.max_items)
        fields = endpoint.read_json(given)
    else:
        fields = endpoint.read_query(given)
    check_size(fields, served.shape, settings)
    return endpoint.make_question(fields, served.recommender)


def _check_structure(body: bytes, max_items: int) -> None:
    """Refuse a body with more objects, keys or lists than any request has, before it is parsed.

    Brackets within ids count as well, so that each limit is far above what requests need.
    """
    if len(body) <= LARGE_BODY:
        return
    dense = body.translate(None, b" \t\r\n")
    objects = dense.count(b",{") + dense.count(b"[{")
    keys = dense.count(b'":')
    lists = dense.count(b",[")
    if objects > 2 * max_items or keys > MAX_FIELDS_OF_ITEM * max_items or lists > max_items:
        raise RefusedError(
            413,
            f"The body has more than {max_items} objects or lists; send fewer at once, as in /docs.",
        )


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
