"""What all routes of the admin API have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from a2a_eval_proxy.features.pages.site import SCREENS
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


PROMISED = [
    "/healthz", "/readyz", "/metrics", "/api/turns", "/api/turns/{turn_id}", "/api/conversations/{conversation_id}",
    "/api/runs", "/api/runs/{name}", "/api/cases/{case_id}", "/api/flush", "/api/events",
]  # fmt: skip


async def test_an_unknown_path_is_answered_with_those_that_there_are(proxy: Proxied) -> None:
    response = await proxy.admin.get("/api/nothing")
    assert response.status_code == 404
    said = response.json()["error"].removeprefix("no such path; there are ").split(", ")
    assert set(PROMISED) <= set(said)
    assert len(set(said)) == len(said)
    assert not [screen.path for screen in SCREENS if screen.path != "/" and screen.path in said]


@pytest.mark.parametrize(
    ("request_line", "known"),
    [
        ("GET /api/turns", "it has run, agent, case, conversation, tag, status, verdict, evaluator, tool, finding, q"),
        ("GET /api/turns/x", "it has none"),
        ("GET /api/turns/x/wire", "it has none"),
        ("GET /api/conversations/x", "it has cursor"),
        ("GET /api/runs", "it has agent"),
        ("GET /api/runs/x", "it has none"),
        ("GET /api/runs/x/compare/y", "it has agent"),
        ("GET /api/cases", "it has agent"),
        ("PUT /api/cases/x", "it has agent"),
        ("DELETE /api/cases/x", "it has agent"),
        ("POST /api/turns/x/annotations", "it has none"),
        ("GET /api/agents", "it has none"),
        ("GET /api/open-turns", "it has run, agent, case"),
        ("POST /api/flush", "it has timeout"),
        ("GET /api/events", "it has run, agent, case, types, turn, view, last_event_id"),
        ("GET /metrics", "it has none"),
    ],
)
async def test_unknown_parameters_are_refused_with_those_that_there_are(
    proxy: Proxied, request_line: str, known: str
) -> None:
    method, path = request_line.split()
    response = await proxy.admin.request(method, f"{path}?rnu=x")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith(f"'rnu' is no parameter of {method} {path.split('/x')[0]}")
    assert f"; {known}" in error


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_may_have_a_parameter(proxy: Proxied, path: str) -> None:
    assert (await proxy.admin.get(f"{path}?rnu=x")).status_code == 200


@pytest.mark.parametrize(
    ("request_line", "accepted"),
    [
        ("GET /api/turns?status", ["open", "pending", "done"]),
        ("GET /api/turns?verdict", ["failed", "errored", "passed", "unscored"]),
        ("GET /api/turns?order", ["newest", "oldest"]),
        ("GET /api/turns?limit", ["integer"]),
        ("GET /api/events?types", ["turn.opened", "turn.done"]),
        ("GET /api/events?view", ["short", "count"]),
        ("POST /api/flush?timeout", ["number"]),
    ],
)
async def test_unknown_values_are_refused_with_those_that_are_accepted(
    proxy: Proxied, request_line: str, accepted: list[str]
) -> None:
    method, target = request_line.split()
    response = await proxy.admin.request(method, f"{target}=bogus")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith(f"{target.partition('?')[2]}: ")
    assert "expected " in error or "valid " in error
    assert all(value in error for value in accepted), error


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
