"""Who may use the admin port: a token for metrics alone, wrong tokens, users whom a proxy names, and what is logged."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.net import failed_logins
from a2a_eval_proxy.net.failed_logins import FREE
from a2a_eval_proxy.settings.parsing import NETWORKS
from support.proxied import Proxied, proxied

ADMIN, METRICS = "admin-0123456789abcdef", "metrics-0123456789abcdef"
CASE = {"id": "x", "turns": [{"user": "hi"}]}
SAME_SITE = {"sec-fetch-site": "same-origin"}
USERS: dict[str, Any] = {
    "admin_user_header": "X-Forwarded-User",
    "admin_groups_header": "X-Forwarded-Groups",
    "admin_proxies": NETWORKS.parse("127.0.0.1"),
    "admin_read_groups": ("staff",),
    "admin_write_groups": ("evaluators",),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def user(name: str, groups: str = "staff,evaluators", **headers: str) -> dict[str, str]:
    return {"X-Forwarded-User": name, "X-Forwarded-Groups": groups, **SAME_SITE, **headers}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    folder = tmp_path_factory.mktemp("guarded")
    async with proxied(folder, admin_token=ADMIN, metrics_token=METRICS, **USERS) as running:
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


@pytest.fixture
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, no further attempt is due."""
    monkeypatch.setattr(failed_logins, "PAUSE_S", 3_600.0)


@pytest.mark.usefixtures("time_stands_still")
async def test_wrong_tokens_are_counted_by_address_over_every_door(tmp_path: Path, caplog) -> None:
    async with proxied(tmp_path, admin_token=ADMIN) as it, httpx.AsyncClient(base_url=it.proxy.admin_url) as client:
        answers = [
            response.status_code
            for response in await asyncio.gather(
                *(client.get("/api/runs", headers=bearer(f"guess-{number}")) for number in range(30)),
                *(client.post("/login", data={"token": f"guess-{number}"}, headers=SAME_SITE) for number in range(30)),
                *(client.get("/login", params={"code": f"guess-{number}"}) for number in range(30)),
            )
        ]
        assert set(answers) == {401, 429}
        assert answers.count(401) == FREE
        assert (await client.get("/api/runs", headers=bearer(ADMIN))).status_code == 200  # someone else
        assert (await client.post("/login", data={"token": ADMIN}, headers=SAME_SITE)).status_code == 303
        assert (await client.get(it.proxy.page_address())).status_code == 303
        refused = await client.get("/api/runs", headers=bearer("guess"))
        assert refused.status_code == 429
        assert 3_500 < int(refused.headers["retry-after"]) <= 3_600
        assert "too many wrong tokens" in refused.json()["error"]
        assert (await client.get("/readyz")).status_code == 200
    lines = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert len(lines) == FREE
    assert lines[0].startswith("login failed: a ")
    assert lines[FREE - 1].endswith("; further ones get 429 for 1 s, and no line")
    assert "guess" not in caplog.text


@pytest.mark.usefixtures("time_stands_still")
async def test_the_page_says_how_long_to_wait(tmp_path: Path) -> None:
    async with proxied(tmp_path, admin_token=ADMIN) as it:
        for _ in range(FREE):
            await it.admin.post("/login", data={"token": "wrong"}, headers=SAME_SITE)
        response = await it.admin.post("/login", data={"token": "wrong"}, headers=SAME_SITE)
        assert response.status_code == 429
        assert "Too many wrong tokens came from this address; wait" in response.text


# ── users of a trusted proxy ────────────────────────────────────────────────────────────────────────────────


async def test_groups_decide_who_reads_and_who_changes(it: Proxied) -> None:
    for groups, reads, changes in (
        ("evaluators", 200, 200),
        ("staff", 200, 403),
        ("other, evaluators", 200, 200),
        ("other", 403, 403),
        ("", 403, 403),
        ("Evaluators", 403, 403),
        ("evaluators2", 403, 403),
        ("*", 403, 403),
    ):
        headers = user("ann", groups)
        assert (await it.admin.get("/api/turns", headers=headers)).status_code == reads, groups
        assert (await it.admin.get("/", headers=headers)).status_code == reads, groups
        for method in ("PUT", "DELETE"):
            response = await it.admin.request(method, "/api/cases/x", headers=headers, json=CASE)
            assert response.status_code in ((200, 204) if changes == 200 else (403,)), groups
        assert (await it.admin.post("/api/flush", headers=headers)).status_code == reads, groups


async def test_a_reader_cannot_change_by_another_door(it: Proxied) -> None:
    for path in ("/accept", "/again", "/playground", "/check", "/turns/x/annotations", "/turns/x/case", "/logout"):
        assert (await it.admin.post(path, headers=user("ann", "staff"))).status_code == 403, path
    override = user("ann", "staff", **{"x-http-method-override": "PUT"})
    assert (await it.admin.get("/api/cases/x", headers=override)).status_code in (404, 405)
    assert 'class="reads-only"' in (await it.admin.get("/", headers=user("ann", "staff"))).text
    assert 'class="reads-only"' not in (await it.admin.get("/", headers=user("ann"))).text


async def test_pages_of_other_sites_change_nothing_in_the_name_of_a_user(it: Proxied) -> None:
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "", "origin": "http://evil.example"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
    ):
        response = await it.admin.put("/api/cases/x", headers=user("ann", **headers), json=CASE)
        assert response.status_code == 403, headers
    plain = {name: value for name, value in user("ann").items() if name != "sec-fetch-site"}
    assert (await it.admin.put("/api/cases/x", headers=plain, json=CASE)).status_code == 403
    assert (await it.admin.get("/api/turns", headers=user("ann", host="evil.example"))).status_code == 421


async def test_a_header_that_comes_twice_is_refused(it: Proxied) -> None:
    for name in ("X-Forwarded-User", "x-forwarded-groups"):
        headers = [*user("ann").items(), (name, "evaluators")]
        response = await it.admin.get("/api/turns", headers=headers)
        assert response.status_code == 400
        assert response.json()["error"] == f"the request has more than one header {name.lower()}"


async def test_another_spelling_of_the_header_names_nobody(it: Proxied) -> None:
    for name, status in (
        ("X_Forwarded_User", 401),
        ("X-Forwarded_User", 401),
        ("X-Forwarded-User-", 401),
        ("Forwarded-User", 401),
        ("x-forwarded-user", 200),
        ("X-FORWARDED-USER", 200),
    ):
        headers = {name: "ann", "X-Forwarded-Groups": "evaluators", **SAME_SITE}
        assert (await it.admin.get("/api/turns", headers=headers)).status_code == status, name
    assert (await it.admin.get("/api/turns", headers={"X-Forwarded-Groups": "evaluators"})).status_code == 401
    assert (await it.admin.get("/api/turns", headers=user(""))).status_code == 401


async def test_the_header_of_anybody_else_names_nobody(tmp_path: Path, caplog) -> None:
    elsewhere = {**USERS, "admin_proxies": NETWORKS.parse("10.0.0.0/8,::1")}
    async with proxied(tmp_path, admin_token=ADMIN, **elsewhere) as it:
        for _ in range(2):
            assert (await it.admin.get("/api/turns", headers=user("ann"))).status_code == 401
        assert (await it.admin.get("/api/turns", headers=user("ann") | bearer(ADMIN))).status_code == 200
    assert caplog.text.count("x-forwarded-user is ignored: 127.0.0.1 is not in admin_proxies") == 1


async def test_the_token_of_a_person_that_the_proxy_passes_on_is_no_guess(it: Proxied, caplog) -> None:
    for _ in range(2 * FREE):
        headers = user("ann") | bearer("an-id-token-of-somebody")
        assert (await it.admin.get("/api/turns", headers=headers)).status_code == 200
    assert "login failed" not in caplog.text


# ── the audit log ───────────────────────────────────────────────────────────────────────────────────────────


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of the audit log, as the facts that they have."""
    lines = [record.getMessage() for record in caplog.records if record.name.endswith(".audit")]
    assert all(line.isascii() and line.isprintable() for line in lines)
    return [
        {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)', line)}
        for line in lines
    ]


async def test_each_change_has_a_line_with_who_what_and_from_where(it: Proxied, caplog) -> None:
    await it.talks("audited", state="COMPLETED")
    await it.admin.post("/api/flush", headers=bearer(ADMIN))
    turn_id = (await it.admin.get("/api/turns", headers=bearer(ADMIN))).json()["items"][0]["turn_id"]
    caplog.clear()
    forwarded = user("ann", **{"X-Forwarded-For": "1.2.3.4, 5.6.7.8"})
    await it.admin.get("/api/turns", headers=forwarded)
    await it.admin.put("/api/cases/x", headers=forwarded, json=CASE)
    await it.admin.put("/api/cases/x", headers=user("bob", "staff"), json=CASE)
    note = {"assessment": "wrong", "note": "a secret thought"}
    annotation = await it.admin.post(f"/api/turns/{turn_id}/annotations", headers=bearer(ADMIN), json=note)
    bound = await it.admin.post(f"/api/turns/{turn_id}/case", headers=bearer(ADMIN), json={"case_id": "x"})
    await it.admin.delete("/api/cases/x", headers=bearer(ADMIN))
    assert bound.status_code == 202
    base = {"from": "127.0.0.1"}
    turn = f"/api/turns/{turn_id}"
    assert audited(caplog) == [
        {
            "user": "ann", "by": "trusted proxy", **base, "for": "5.6.7.8", "did": "PUT /api/cases/x", "status": 200,
        },
        {"user": "bob", "by": "trusted proxy", **base, "did": "PUT /api/cases/x", "status": 403},
        {
            "by": "admin token", **base, "did": f"POST {turn}/annotations", "status": 201,
            "turn": turn_id, "annotation": annotation.json()["annotation_id"], "assessment": "wrong",
        },
        {"by": "admin token", **base, "did": f"POST {turn}/case", "status": 202, "turn": turn_id, "case": "x"},
        {"by": "admin token", **base, "did": "DELETE /api/cases/x", "status": 204},
    ]  # fmt: skip
    assert "secret" not in caplog.text


async def test_logins_and_changes_of_pages_have_lines(it: Proxied, caplog) -> None:
    async with httpx.AsyncClient(base_url=it.proxy.admin_url, headers=SAME_SITE) as visitor:
        assert (await visitor.get(it.proxy.page_address())).status_code == 303
        assert (await visitor.put("/api/cases/y", json=CASE | {"id": "y"})).status_code == 200
        await visitor.post("/logout")
        assert (await visitor.post("/login", data={"token": ADMIN})).status_code == 303
    assert [(line["by"], line["did"]) for line in audited(caplog)] == [
        ("login", "GET /login"),
        ("session", "PUT /api/cases/y"),
        ("session", "POST /logout"),
        ("login", "POST /login"),
    ]
    assert ADMIN not in caplog.text
    assert "code" not in " ".join(map(str, audited(caplog)))


@pytest.mark.parametrize(
    "name",
    [
        b'ann" by="admin token',
        "änn\u202e\u2028".encode(),
        b"\xff\xfe",
        b"ann by=x status=200 user=bob",
        b"a" * 5_000,
        b'\\\\" \\u0022',
    ],
)
async def test_a_name_stays_in_its_place_of_its_line(it: Proxied, caplog, name: bytes) -> None:
    headers = [(b"X-Forwarded-User", name), (b"X-Forwarded-Groups", b"evaluators"), (b"sec-fetch-site", b"same-origin")]
    assert (await it.admin.put("/api/cases/z", headers=headers, json=CASE | {"id": "z"})).status_code == 200
    (line,) = audited(caplog)
    assert line["user"] == name.decode("utf-8", "replace")[:200].strip()
    assert (line["by"], line["did"]) == ("trusted proxy", "PUT /api/cases/z")
