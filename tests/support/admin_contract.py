"""The OpenAPI document of the admin API as tests use it: every answer must be described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
from jsonschema import Draft202012Validator

HOLES = re.compile(r"{\w+}")


class AdminContract:
    """Checks answers against the document of the proxy that gave them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = strict(document)
        self._paths = [(re.compile(".+".join(map(re.escape, HOLES.split(path)))), path) for path in document["paths"]]

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        """The description of a request; of several that fit, the one with most of the path in words."""
        fitting = [place for pattern, place in self._paths if pattern.fullmatch(path)]
        place = max(fitting, key=lambda place: len(HOLES.sub("", place)), default=None)
        return self._document["paths"][place].get(method.lower()) if place else None

    def check(self, response: httpx.Response) -> None:
        """Fails unless the document describes this status, media type and JSON for the request."""
        request = response.request
        where = f"{request.method} {request.url.raw_path.decode()}: {response.status_code}"
        operation = self.operation(request.method, request.url.raw_path.decode().partition("?")[0])
        if operation is None:
            return
        answer = operation["responses"].get(str(response.status_code))
        assert answer is not None, f"{where} is not described"
        media_type = response.headers.get("content-type", "").partition(";")[0]
        assert [media_type] == list(answer.get("content", {"": None})), f"{where} is {media_type}"
        if media_type == "application/json":
            schema = {**answer["content"][media_type]["schema"], "components": self._document["components"]}
            errors = [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(response.json())]
            assert not errors, f"{where} is not as described: {'; '.join(errors)[:1000]}"

    def schemas(self) -> Iterator[dict[str, Any]]:
        """Every schema of the document."""
        yield from self._document["components"]["schemas"].values()
        for place in self._document["paths"].values():
            for operation in place.values():
                yield from (parameter["schema"] for parameter in operation["parameters"])
                contents = [operation.get("requestBody", {}), *operation["responses"].values()]
                yield from (media["schema"] for one in contents for media in one.get("content", {}).values())


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def strict(value: Any) -> Any:
    """The document, in which objects have the described properties and no others."""
    if isinstance(value, list):
        return [strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    closed = {key: strict(item) for key, item in value.items()}
    if closed.get("type") == "object" and "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed
