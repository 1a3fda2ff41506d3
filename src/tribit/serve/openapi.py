"""The routes with their OpenAPI pages: what each endpoint takes and returns, with examples.

Handlers read requests themselves, which takes a fraction of the time that FastAPI's own reading does; what they take is
therefore written into the pages here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tribit.serve.handling import handler
from tribit.serve.schemas import (
    ErrorAnswer,
    Explained,
    ExplainRequest,
    FoldedIn,
    FoldInRequest,
    Health,
    Predictions,
    PredictRequest,
    RecommendRequest,
    Request,
    RowLists,
)

if TYPE_CHECKING:
    from tribit.serve.app import Service

DESCRIPTION = (
    "Answers of a tribit model: probabilities of a like, lists, reasons, and people who came after the fit. "
    'An error is `{"error": "one sentence"}`.'
)
REFERENCE = "#/components/schemas/{model}"
#: Statuses of errors that every question can have, and what they mean.
ERRORS = {
    400: "The body or the query cannot be read.",
    404: "An id that must be known is not.",
    408: "The body did not come in time.",
    413: "The request asks for too much at once.",
    422: "A field is wrong.",
    503: "Too many long requests are waiting.",
}
#: Fields of a request that a query has under another name, once for each element.
REPEATED = {"rows": ("row",), "pairs": ("row", "column")}
QUESTIONS: dict[str, tuple[str, type[Request], type[BaseModel], tuple[str, ...]]] = {
    "/predict": ("predict", PredictRequest, Predictions, ("GET", "POST")),
    "/recommend": ("recommend", RecommendRequest, RowLists, ("GET", "POST")),
    "/explain": ("explain", ExplainRequest, Explained, ("GET", "POST")),
    "/fold-in": ("fold_in", FoldInRequest, FoldedIn, ("POST",)),
}


def document(app: FastAPI, service: Service) -> None:
    """Add every endpoint of a service to an application."""
    refused: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": meaning} for status, meaning in ERRORS.items()
    }
    for path, (name, schema, answer, methods) in QUESTIONS.items():
        method = getattr(service, name)
        for verb in methods:
            app.add_api_route(
                path,
                handler(path, service.counters, method),
                methods=[verb],
                operation_id=f"{name}_{verb.lower()}",
                summary=method.__doc__,
                response_model=None,
                responses={200: {"model": answer}, **refused},
                openapi_extra=_taken(schema, verb),
            )
    for path, model in {"/health": Health, "/metrics": None}.items():
        method = getattr(service, path[1:])
        app.add_api_route(
            path,
            handler(path, service.counters, method),
            methods=["GET"],
            operation_id=path[1:],
            summary=method.__doc__,
            response_model=None,
            responses={200: {"content": {"text/plain": {}}} if model is None else {"model": model}},
        )

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            requests = [(schema, "validation") for _, schema, _, _ in QUESTIONS.values()]
            _, extra = models_json_schema(requests, ref_template=REFERENCE)  # type: ignore[arg-type]
            found["components"]["schemas"] |= extra["$defs"]
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _taken(schema: type[Request], verb: str) -> dict[str, Any]:
    """Return what a request holds: a body, or the parameters of a query."""
    if verb == "POST":
        reference = {"$ref": REFERENCE.format(model=schema.__name__)}
        content = {"application/json": {"schema": reference}}
        return {"requestBody": {"required": True, "content": content}}
    whole = schema.model_json_schema()
    example = whole["examples"][0]
    parameters = []
    for name, field in whole["properties"].items():
        for one in REPEATED.get(name, (name,)):
            given, described = example.get(name), dict(field)
            if name in REPEATED:
                described = {"type": "array", "items": {"type": "string"}, "minItems": 1}
                given = [each if isinstance(each, str) else each[one] for each in given]
            parameter = {
                "name": one,
                "in": "query",
                "required": name in whole.get("required", []),
                "schema": described,
            }
            if given is not None:
                parameter["example"] = given
            parameters.append(parameter)
    return {"parameters": parameters}
