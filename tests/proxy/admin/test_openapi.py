"""The OpenAPI document of the admin API describes its routes, and no others; `support.proxied` checks answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from a2a_eval_proxy.features.pages.site import SCREENS
from jsonschema import Draft202012Validator
from support.admin_contract import HOLES, AdminContract
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEALTH = ("/healthz", "/readyz")
ENDLESS = "/api/events"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(proxy: Proxied) -> dict[str, Any]:
    found: dict[str, Any] = await proxy.get("/api/openapi.json")
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation; a path has `x` in each of its holes."""
    return [
        (method.upper(), HOLES.sub("x", path), operation)
        for path, place in document["paths"].items()
        for method, operation in place.items()
    ]


async def test_every_route_of_the_contract_is_described(document: dict[str, Any]) -> None:
    promised = {
        "/healthz", "/readyz", "/metrics", "/api/turns", "/api/turns/{turn_id}",
        "/api/conversations/{conversation_id}", "/api/runs", "/api/runs/{name}", "/api/cases/{case_id}", "/api/flush",
        "/api/events",
    }  # fmt: skip
    assert promised <= set(document["paths"])
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


async def test_pages_are_no_operations(proxy: Proxied, document: dict[str, Any]) -> None:
    """All other routes of the admin port are made from the operations that the document describes."""
    paths = [screen.path for screen in SCREENS]
    assert paths
    assert not [path for path in paths if path.startswith("/api/") or path in document["paths"]]


async def test_the_document_is_valid(document: dict[str, Any]) -> None:
    """What https://spec.openapis.org/oas/v3.1.1 requires; the schemas are JSON Schemas, and their names exist."""
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"]
    assert document["info"]["version"]
    for schema in AdminContract(document).schemas():
        Draft202012Validator.check_schema(schema)
        for name in references(schema):
            assert name in document["components"]["schemas"]
    for path, place in document["paths"].items():
        for operation in place.values():
            in_path = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
            assert [f"{{{name}}}" for name in in_path] == HOLES.findall(path)
            names = [one["name"] for one in operation["parameters"]]
            assert len(set(names)) == len(names)
            assert all(one["description"] for one in (*operation["parameters"], *operation["responses"].values()))


def references(value: Any) -> list[str]:
    """The names of the components that a schema refers to."""
    if isinstance(value, list):
        return [name for item in value for name in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"].removeprefix("#/components/schemas/")] if "$ref" in value else []
    return own + [name for item in value.values() for name in references(item)]


async def test_every_described_operation_exists(proxy: Proxied, document: dict[str, Any]) -> None:
    for method, path, _ in operations(document):
        if path != ENDLESS:
            response = await proxy.admin.request(method, path)
            assert response.status_code != 405, (method, path)
            assert "no such path" not in response.text, (method, path)


async def test_unknown_parameters_are_refused_everywhere(proxy: Proxied, document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        response = await proxy.admin.request(method, f"{path}?rnu=x")
        if path not in HEALTH:
            assert response.status_code == 400, (method, path)
            error = response.json()["error"]
            assert error.startswith("'rnu' is no parameter of "), error
            assert all(one["name"] in error for one in operation["parameters"] if one["in"] == "query"), error
        else:
            assert response.status_code == 200, path


async def test_unknown_values_are_refused_with_those_that_are_accepted(
    proxy: Proxied, document: dict[str, Any]
) -> None:
    refused = 0
    for method, path, operation in operations(document):
        for parameter in operation["parameters"]:
            schema = parameter["schema"].get("items", parameter["schema"])
            if schema.get("enum") or schema["type"] in ("integer", "number"):
                response = await proxy.admin.request(method, f"{path}?{parameter['name']}=bogus")
                assert response.status_code == 400, (method, path, parameter["name"])
                error = response.json()["error"]
                assert error.startswith(f"{parameter['name']}: expected "), error
                assert all(value in error for value in schema.get("enum", ())), error
                refused += 1
    assert refused >= 3


async def test_a_parameter_is_given_once(proxy: Proxied) -> None:
    response = await proxy.admin.get("/api/turns?run=a&run=b")
    assert (response.status_code, response.json()) == (400, {"error": "run: given more than once"})


@pytest.mark.parametrize("path", ["/api/turns/", "/api/cases/", "/api/runs/"])
async def test_a_slash_at_the_end_is_no_redirect(proxy: Proxied, path: str) -> None:
    assert (await proxy.admin.get(path)).status_code in (404, 405)


async def test_a_wrong_method_is_answered_with_the_right_ones(proxy: Proxied) -> None:
    response = await proxy.admin.post("/api/cases/a/b")
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, PUT")
    assert response.json() == {"error": "POST is not allowed here; allowed: DELETE, PUT"}
