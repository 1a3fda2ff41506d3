"""Pages about the endpoints, made from the questions: ``/docs`` to read, ``/openapi.json`` for programs."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from shlex import quote
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tribit import __version__
from tribit.serve.schemas import BY_QUERY, ENDPOINTS, Endpoint, NewEntry, Pair

#: The page loads nothing from elsewhere.
HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
REFERENCE = "#/components/schemas/{model}"
#: Statuses of errors that every question can have.
ERRORS = {
    400: "The body is no JSON, or the query no UTF-8.",
    404: "An id that must be known is not, or there is no such path.",
    405: "The endpoint does not take this method.",
    408: "The body did not come in time.",
    413: "The request asks for more than a limit allows.",
    422: "A field is wrong.",
    500: "A fault of the service, which its log describes.",
    503: "Too many long requests are waiting: try again.",
}
OTHERS = {"/health": "The model that answers, and problems.", "/metrics": "Numbers for Prometheus."}
STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em}"
    "pre{background:#f4f4f4;padding:.8em;overflow-x:auto}table{border-collapse:collapse}"
    "td,th{text-align:left;vertical-align:top;padding:.2em 1em .2em 0;border-bottom:1px solid #ddd}"
)


@cache
def openapi() -> dict[str, Any]:
    """Return the description of the endpoints in the format of OpenAPI."""
    modes = [(each.schema, "validation") for each in ENDPOINTS.values()]
    _, schemas = models_json_schema(modes, ref_template=REFERENCE)  # type: ignore[arg-type]
    refused = {str(status): {"description": meaning} for status, meaning in ERRORS.items()}
    paths: dict[str, Any] = {
        path: {"get": {"summary": meaning, "responses": {"200": {"description": meaning}}}}
        for path, meaning in OTHERS.items()
    }
    responses = {"200": {"description": "The answer, as JSON."}, **refused}
    for path, endpoint in ENDPOINTS.items():
        schema = {"$ref": REFERENCE.format(model=endpoint.schema.__name__)}
        paths[path] = {
            "post": {
                "operationId": endpoint.name,
                "summary": endpoint.entry.help,
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": schema}},
                },
                "responses": responses,
            }
        }
    asked = ENDPOINTS[BY_QUERY]
    fields = asked.schema.model_json_schema(ref_template=REFERENCE)["properties"]
    paths[BY_QUERY]["get"] = {
        "operationId": f"{asked.name}_by_query",
        "summary": asked.entry.help,
        "parameters": [
            {"name": written, "in": "query", "schema": fields[name]}
            for written, name in asked.query_names.items()
        ],
        "responses": responses,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "tribit", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


@cache
def manual() -> str:
    """Return the page of all endpoints: fields, defaults and an example of each."""
    parts = [_section(path, endpoint) for path, endpoint in ENDPOINTS.items()]
    records = [f"<h2>{each.__name__}</h2>{_fields(each)}" for each in (Pair, NewEntry)]
    others = _table(("path", ""), OTHERS.items())
    errors = _table(("status", "meaning"), ERRORS.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tribit {__version__}</title>'
        f"<style>{STYLE}</style><h1>tribit {__version__}</h1>{''.join(parts + records)}"
        f"<h2>GET</h2><p>/recommend also answers a query, such as <code>?row=user3&amp;n=5</code>.</p>{others}"
        f'<h2>Errors</h2><p>An error is <code>{{"error": "one sentence"}}</code>.</p>{errors}'
        '<p><a href="/openapi.json">/openapi.json</a> describes the requests to programs.</p></html>'
    )


def _section(path: str, endpoint: Endpoint) -> str:
    command = f"curl http://127.0.0.1:8000{path} -d {quote(json.dumps(endpoint.entry.request))}"
    return (
        f"<h2>POST {path}</h2><p>{escape(endpoint.entry.help)}</p>{_fields(endpoint.schema)}"
        f"<pre>{escape(command)}</pre>"
    )


def _fields(model: type[BaseModel]) -> str:
    """Return the table of the fields of a model."""
    schema = model.model_json_schema()
    needed = schema.get("required", ())
    fields = [
        (
            name,
            _type(about),
            "needed" if name in needed else json.dumps(about["default"]),
            about.get("description", ""),
        )
        for name, about in schema["properties"].items()
    ]
    return _table(("field", "type", "default", "meaning"), fields)


def _type(schema: dict[str, Any]) -> str:
    """Return the JSON type of a field in words."""
    if "anyOf" in schema:
        found = [_type(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(found))
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "value"))


def _table(head: tuple[str, ...], records: Any) -> str:
    lines = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>"]
    for record in records:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in record)
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
