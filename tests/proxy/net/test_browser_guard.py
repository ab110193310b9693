"""Pages of other sites get nothing through a browser that happens to be on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.net.browser_guard import HostNames, refusal
from a2a_eval_proxy.settings.settings import Settings
from hypothesis import given
from hypothesis import strategies as st

NAMES = HostNames(["proxy.example", "eval"])
FOREIGN = [
    "evil.example",
    "evil.example:8081",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil",
    "svc",
    "[::1",
    "x@127.0.0.1.nip.io",
]
OURS = [
    "127.0.0.1",
    "127.0.0.1:8081",
    "10.1.2.3:8081",
    "[::1]:8081",
    "localhost",
    "LOCALHOST:80",
    "a.localhost",
    "proxy.example:1",
    "Proxy.Example.",
    "eval:8081",
    "orders.shop.svc:8081",
    "orders.shop.svc.cluster.local",
]


def status(**headers: str) -> int | None:
    refused = refusal([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()], NAMES)
    return refused.status if refused else None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        *(({"host": host}, None) for host in OURS),
        *(({"host": "127.0.0.1", "origin": f"http://{host}"}, None) for host in OURS),
        *(({"host": host}, 421) for host in FOREIGN),
        *(({"host": "127.0.0.1:8081", "origin": f"http://{host}"}, 403) for host in FOREIGN),
        ({}, None),
        ({"host": ""}, None),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "sec_fetch_site": "cross-site"}, 403),
        ({"host": "localhost", "sec_fetch_site": "same-origin"}, None),
        ({"host": "localhost", "sec_fetch_site": "none"}, None),
        ({"host": "localhost", "sec_fetch_site": "cross-site", "origin": "https://proxy.example"}, None),
    ],
)
def test_what_browsers_say_of_pages(headers: dict[str, str], expected: int | None) -> None:
    assert status(**headers) == expected


def test_two_hosts_are_a_bad_request() -> None:
    refused = refusal([(b"host", b"localhost"), (b"Host", b"localhost")], NAMES)
    assert refused is not None
    assert refused.status == 400


@given(st.lists(st.tuples(st.sampled_from([b"host", b"origin", b"sec-fetch-site"]), st.binary()), max_size=4))
def test_any_header_gets_an_answer(headers: list[tuple[bytes, bytes]]) -> None:
    refused = refusal(headers, NAMES)
    assert refused is None or refused.status in (400, 403, 421)


# ── in front of a running proxy ─────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def proxy(path: Path, **settings: Any) -> AsyncIterator[tuple[RunningProxy, httpx.AsyncClient]]:
    """Before an agent that is not there: what gets past the guard is a 502."""
    addresses = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None}
    given = {**addresses, "store": str(path / "t.db"), **settings}
    async with run_proxy(Settings(upstream="http://127.0.0.1:1", **given)) as running, httpx.AsyncClient() as client:
        yield running, client


EVIL = {"host": "evil.example", "origin": "http://evil.example"}


async def test_the_admin_port_is_closed_to_other_sites(tmp_path: Path) -> None:
    async with proxy(tmp_path) as (running, client):
        for path in ("/api/turns", "/metrics", "/api/events", "/nothing"):
            refused = await client.get(running.admin_url + path, headers=EVIL)
            assert refused.status_code == 421
            assert "--allow-hosts" in refused.json()["error"]
        put = await client.put(running.admin_url + "/api/cases/x", headers=EVIL, json={"turns": [{"user": "a"}]})
        assert put.status_code == 421
        flush = await client.post(running.admin_url + "/api/flush", headers={"origin": "http://evil.example"})
        assert flush.status_code == 403
        for path in ("/healthz", "/readyz"):
            assert (await client.get(running.admin_url + path, headers=EVIL)).status_code == 200
        assert (await client.get(running.admin_url + "/api/turns")).status_code == 200


@pytest.mark.parametrize(
    ("settings", "headers", "expected"),
    [
        ({"allow_hosts": ("evil.example",)}, EVIL, 200),
        ({"admin_token": "s3cret"}, {"host": "eval.shop"}, 401),
        ({"admin_token": "s3cret"}, {"host": "eval.shop", "authorization": "Bearer s3cret"}, 200),
    ],
)
async def test_names_can_be_allowed_and_a_token_decides_where_there_is_one(
    tmp_path: Path, settings: dict[str, Any], headers: dict[str, str], expected: int
) -> None:
    async with proxy(tmp_path, **settings) as (running, client):
        assert (await client.get(running.admin_url + "/api/turns", headers=headers)).status_code == expected


@pytest.mark.parametrize("path", ["/", "/.well-known/agent-card.json", "/message:send"])
async def test_the_agents_credentials_are_not_for_other_sites(tmp_path: Path, path: str) -> None:
    simple = {"origin": "http://evil.example", "content-type": "text/plain"}
    credentials = {"upstream_header": (("authorization", "Bearer of-the-proxy"),)}
    async with proxy(tmp_path, **credentials, listen="0.0.0.0:0") as (running, client):
        # Whoever listens on every address listens on loopback too, where a page can lead a browser.
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        assert (await client.get(url + path, headers={"host": "evil.example"})).status_code == 421
        assert (await client.get(url + path)).status_code == 502
    async with proxy(tmp_path, **credentials) as (running, client):
        assert (await client.post(running.url + path, headers=simple, content="{}")).status_code == 403
        assert (await client.get(running.url + path, headers={"host": "evil.example"})).status_code == 421
        assert (await client.get(running.url + path)).status_code == 502
    async with proxy(tmp_path) as (running, client):  # without them, the agent decides
        assert (await client.post(running.url + path, headers=simple, content="{}")).status_code == 502
