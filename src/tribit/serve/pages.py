"""Pages for a browser: ``/`` shows the list of a row with reasons, ``/docs`` the endpoints."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from shlex import quote
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel
from starlette.responses import HTMLResponse, Response

from tribit import __version__
from tribit.serve.schemas import Names, endpoints, record_types
from tribit.serve.served_model import ServedModel

#: Statuses of errors.
ERRORS = {
    400: "The body is not JSON, or the query is not UTF-8.",
    404: "An id is unknown where it must be known, or the path does not exist.",
    401: "The token is missing or wrong.",
    405: "The endpoint does not accept this method.",
    408: "The headers or the body did not arrive in time.",
    413: "The request exceeds a limit (414: its query, 431: its headers).",
    415: "The body is not declared as JSON by the header Content-Type: application/json.",
    421: "The host of the request is not one of the service.",
    422: "A field is invalid.",
    500: "The service failed; its log has the reason.",
    503: "Too many long requests or connections are open: try again.",
}
_ENVIRONMENT = Environment(
    loader=PackageLoader("tribit.serve"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)


def _render(template: str, **values: Any) -> str:
    """Return a page, with the style and the script of all pages to include."""
    shared = {"version": __version__, "style": _source("page.css"), "script": _source("index.js")}
    return _ENVIRONMENT.get_template(template).render(**shared, **values)


@cache
def _source(name: str) -> Markup:
    """Return a style or a script, which is included unchanged."""
    loader = _ENVIRONMENT.loader
    assert loader is not None
    return Markup(loader.get_source(_ENVIRONMENT, name)[0])  # noqa: S704


@cache
def _headers() -> dict[str, str]:
    """Return the headers of pages: they load nothing, and run one script, which asks this service alone."""
    hashes = {
        name: base64.b64encode(hashlib.sha256(_source(name).encode()).digest()).decode()
        for name in ("page.css", "index.js")
    }
    policy = {
        "default-src": "'none'",
        "style-src": f"'sha256-{hashes['page.css']}'",
        "script-src": f"'sha256-{hashes['index.js']}'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {rule}" for name, rule in policy.items()),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def response(page: str) -> Response:
    """Return the response with a page."""
    return HTMLResponse(page, headers=_headers())


def index_page(served: ServedModel, *, needs_token: bool = False) -> str:
    """Return the ``/`` page: a search box for a row, for its list with reasons; with a box for the token if needed."""
    recommender = served.recommender
    return _render(
        "index.html",
        words=served.wording,
        needs_token=needs_token,
        names=served.names,
        meaning=recommender.model_.fitted_.meaning,
        has_entries=recommender.seen_ is not None,
        has_ranker=recommender.ranker_ is not None,
        shape=served.shape,
        model=served.version,
    )


class DocumentedField(NamedTuple):
    """A field of a request on the ``/docs`` page."""

    name: str
    type: str
    default: str
    meaning: str


@cache
def docs_page(names: Names) -> str:
    """Return the ``/docs`` page: fields, defaults and an example of each endpoint."""
    described = [
        {
            "path": path,
            "help": endpoint.entry.help,
            "fields": documented_fields(endpoint.schema),
            "example": f"curl http://127.0.0.1:8000{path} --json {quote(json.dumps(endpoint.example))}",
        }
        for path, endpoint in endpoints(names).items()
    ]
    records = {each.__name__: documented_fields(each) for each in record_types(names)}
    return _render("docs.html", endpoints=described, records=records, names=names, errors=ERRORS)


def documented_fields(model: type[BaseModel]) -> list[DocumentedField]:
    """Return the fields of a request, from its JSON schema."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        DocumentedField(
            name,
            _type_name(field),
            "required" if name in required else json.dumps(field["default"]),
            field.get("description", ""),
        )
        for name, field in schema["properties"].items()
    ]


def _type_name(schema: dict[str, Any]) -> str:
    """Return the JSON type of a field."""
    if "anyOf" in schema:
        types = [_type_name(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(types))
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}"
    return str(schema.get("type", "value"))
