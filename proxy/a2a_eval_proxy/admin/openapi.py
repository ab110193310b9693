"""The OpenAPI document (https://spec.openapis.org/oas/v3.1.1) of the admin API, made from its operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a_tool_capture import __version__

from .api_operation import ApiAnswer, ApiOperation, ApiParameter
from .schemas import SCHEMAS, named

_REFUSED = {
    400: ApiAnswer("A parameter or the body is wrong or unknown", named("Error")),
    401: ApiAnswer("The admin token is missing", named("Error")),
    403: ApiAnswer("A page of another site sends the request", named("Error")),
    421: ApiAnswer("The Host header names another host", named("Error")),
    503: ApiAnswer("The store cannot be read or written now", named("Error")),
}
"""Answers of every operation that is not open."""
_DESCRIPTION = (
    "Captured turns, their results, runs and cases of a2a-eval-proxy. A segment of a path may contain a slash as `%2F`."
)


def openapi_document(operations: Iterable[ApiOperation]) -> dict[str, Any]:
    """The document as JSON data. A proxy without admin token needs none of the `security`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.place, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "a2a-eval-proxy admin API", "version": __version__, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The admin token"}},
        },
    }


def _operation(operation: ApiOperation) -> dict[str, Any]:
    answers = {**({} if operation.is_open else _REFUSED), **operation.answers}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(one, operation) for one in operation.parameters],
        "responses": {str(status): _answer(answer) for status, answer in sorted(answers.items())},
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    return described


def _parameter(parameter: ApiParameter, operation: ApiOperation) -> dict[str, Any]:
    in_path = parameter.name in operation.in_path
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": "path" if in_path else "query",
        "required": in_path,
        "description": parameter.description,
        "schema": parameter.schema,
    }
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": False}  # with commas
    return described


def _answer(answer: ApiAnswer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.media_type is not None:
        described["content"] = {answer.media_type: {"schema": answer.schema or {"type": "string"}}}
    return described
