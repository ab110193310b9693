"""The screen of the check, with a proxy before an agent that gets the extension wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from agents.faulty_agent import FAULTS, faulty
from agents.serving import ServerThread

from ..conftest import Shown, shown_proxy

FAULT = next(name for name, fault in FAULTS.items() if fault.breaks)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with (
        ServerThread(faulty(FAULT)) as agent,
        shown_proxy(
            tmp_path_factory.mktemp("check"), upstream=agent.url, upstream_header=(("x-key", "s3cret-key"),)
        ) as it,
    ):
        yield it


def test_the_button_starts_a_check_and_the_page_shows_its_report(checked):
    page = checked.admin.get("/check").text
    assert '<form method="post" action="check">' in page
    started = checked.admin.post("/check", headers={"origin": checked.url})
    assert (started.status_code, started.headers["location"]) == (303, "check")
    until = time.monotonic() + 60
    while "data-again" in (part := checked.admin.get("/check?fragment=check").text):
        assert "Checking: " in part
        assert time.monotonic() < until
    assert all(rule in part for rule in FAULTS[FAULT].breaks)
    assert "not conforming" in part
    assert "<b>Fix</b>" in part
    assert "s3cret-key" not in part
    assert "Check again" in part


def test_a_page_of_another_origin_cannot_start_it(checked):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert checked.admin.post("/check", headers={"origin": origin}).status_code == 403
    assert checked.admin.post("/check", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert checked.admin.put("/check").status_code == 405
