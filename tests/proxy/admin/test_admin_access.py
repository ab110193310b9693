"""Who may use the admin port: a token for metrics alone, wrong tokens, and what is logged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from support.proxied import Proxied, proxied

ADMIN, METRICS = "admin-0123456789abcdef", "metrics-0123456789abcdef"
CASE = {"id": "x", "turns": [{"user": "hi"}]}
SAME_SITE = {"sec-fetch-site": "same-origin"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    folder = tmp_path_factory.mktemp("guarded")
    async with proxied(folder, admin_token=ADMIN, metrics_token=METRICS) as running:
        yield running


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_metrics_token_reads_the_metrics_and_nothing_else(it: Proxied) -> None:
    assert (await it.admin.get("/metrics", headers=bearer(METRICS))).status_code == 200
    for method, path in (
        ("GET", "/"),
        ("GET", "/api/turns"),
        ("GET", "/api/events"),
        ("GET", "/metrics/"),
        ("GET", "/metrics/../api/turns"),
        ("PUT", "/api/cases/x"),
        ("POST", "/login"),
        ("POST", "/metrics"),
    ):
        response = await it.admin.request(method, path, headers=bearer(METRICS), json=CASE if method == "PUT" else None)
        assert response.status_code in (403, 404), (method, path)
    form = {"token": METRICS}
    assert (await it.admin.post("/login", data=form, headers=SAME_SITE)).status_code == 401


async def test_wrong_tokens_are_counted_in_the_log_over_every_door(tmp_path: Path, caplog) -> None:
    async with proxied(tmp_path, admin_token=ADMIN) as it, httpx.AsyncClient(base_url=it.proxy.admin_url) as client:
        answers = [
            await client.get("/api/runs", headers=bearer("guess-1")),
            await client.post("/login", data={"token": "guess-2"}, headers=SAME_SITE),
            await client.get("/login", params={"code": "guess-3"}),
        ]
        assert [response.status_code for response in answers] == [401] * 3
        assert (await client.get("/api/runs", headers=bearer(ADMIN))).status_code == 200
    (line,) = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert line == "login failed 1 time(s), last: a wrong token from 127.0.0.1"
    assert "guess" not in caplog.text


# ── users of a trusted proxy ────────────────────────────────────────────────────────────────────────────────


def changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(".guard")]


async def test_each_change_has_a_line_with_who_what_and_from_where(it: Proxied, caplog) -> None:
    await it.talks("audited", state="COMPLETED")
    await it.admin.post("/api/flush", headers=bearer(ADMIN))
    turn_id = (await it.admin.get("/api/turns", headers=bearer(ADMIN))).json()["items"][0]["turn_id"]
    caplog.clear()
    await it.admin.get("/api/turns", headers=bearer(ADMIN))
    await it.admin.put("/api/cases/x", headers=bearer(ADMIN), json=CASE)
    note = {"assessment": "wrong", "note": "a secret thought"}
    annotation = await it.admin.post(f"/api/turns/{turn_id}/annotations", headers=bearer(ADMIN), json=note)
    bound = await it.admin.post(f"/api/turns/{turn_id}/case", headers=bearer(ADMIN), json={"case_id": "x"})
    await it.admin.delete("/api/cases/x", headers=bearer(ADMIN))
    assert bound.status_code == 202
    assert annotation.status_code == 201
    turn = f"/api/turns/{turn_id}"
    assert changes(caplog) == [
        "PUT '/api/cases/x' by admin token from 127.0.0.1",
        f"POST '{turn}/annotations' by admin token from 127.0.0.1",
        f"POST '{turn}/case' by admin token from 127.0.0.1",
        "DELETE '/api/cases/x' by admin token from 127.0.0.1",
    ]
    assert "secret" not in caplog.text


async def test_logins_and_changes_of_pages_have_lines(it: Proxied, caplog) -> None:
    async with httpx.AsyncClient(base_url=it.proxy.admin_url, headers=SAME_SITE) as visitor:
        assert (await visitor.get(it.proxy.control.page_address())).status_code == 303
        assert (await visitor.put("/api/cases/y", json=CASE | {"id": "y"})).status_code == 200
        await visitor.post("/logout")
        assert (await visitor.post("/login", data={"token": ADMIN})).status_code == 303
    assert [line.partition(" from")[0] for line in changes(caplog)] == [
        "GET '/login' by login",
        "PUT '/api/cases/y' by session",
        "POST '/logout' by session",
        "POST '/login' by login",
    ]
    assert ADMIN not in caplog.text
    assert "code" not in " ".join(changes(caplog))
