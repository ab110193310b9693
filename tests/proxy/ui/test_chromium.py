"""The pages in a real browser: live turns, lost connections, hostile contents, filters, keys, accessibility."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chromium import chromium, screenshot, tab

from .conftest import Shown, shown_proxy

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ARTIFACTS = ROOT / "artifacts" / "pages"
WIDTHS = {"phone": 360, "desktop": 1280, "wide": 1920}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser")) as session:
        yield session


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[Shown]:
    """A proxy with the suite of the demo and the turns that its agent made."""
    lines = (ROOT / "tests/evaluators/fixtures/demo-turns.jsonl").read_text("utf-8").splitlines()
    suite = str(ROOT / "proxy/a2a_eval_proxy/demo/suite.yaml")
    with shown_proxy(tmp_path_factory.mktemp("demo"), suite=suite) as proxy:
        proxy.store(*(json.loads(line) for line in lines))
        yield proxy


@contextmanager
def opened(browser: Any, address: str, **screen: Any) -> Iterator[Any]:
    with tab(browser, **screen) as session:
        session.get(address)
        settle(session, "document.documentElement.dataset.ready")
        yield session


def settle(session: Any, script: str) -> None:
    """Wait until `script` is true in the page."""
    session.set_script_timeout(20)
    session.execute_async_script(
        f"const done = arguments[0]; const look = () => ({script}) ? done() : setTimeout(look, 20); look();"
    )


def complaints(session: Any) -> list[str]:
    return [entry["message"] for entry in session.get_log("browser")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", WIDTHS)
def test_screens_fit_every_width(browser: Any, demo: Shown, name: str, dark: bool) -> None:
    failed = demo.admin.get("/api/turns", params={"case": "partial-refund"}).json()["items"][0]["turn_id"]
    screens = {"turns": "/", "turn": f"/turns/{failed}", "nothing": "/?q=nothing+like+that", "error": "/turns/none"}
    for screen, path in screens.items():
        with opened(browser, demo.url + path, width=WIDTHS[name], height=900, dark=dark) as session:
            screenshot(session, ARTIFACTS / f"{screen}-{name}-{'dark' if dark else 'light'}.png")
            page, width = session.execute_script(
                "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert page <= width, screen
            assert [text for text in complaints(session) if "404" not in text and "events" not in text] == []
