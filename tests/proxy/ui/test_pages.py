"""What the pages say: the snippets of the empty list work, the header says what can be seen and what to do."""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from a2a_eval_proxy.turn import Turn, TurnLinks
from agents.stepwise_agent import stepwise_agent
from support.patience import PATIENCE_S
from support.turn_samples import call, turn

from .conftest import Shown, json_answer, shown_proxy


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_snippets_of_the_empty_list_work(tmp_path: Path) -> None:
    with stepwise_agent() as agent, shown_proxy(tmp_path, upstream=agent.url) as proxy:
        page = proxy.admin.get("/").text
        snippets = {
            name: html.unescape(text) for name, text in re.findall(r'id="snippet-(\w+)">(.*?)</pre>', page, re.DOTALL)
        }
        assert set(snippets) == {"curl", "python", "javascript"}
        with redirect_stdout(io.StringIO()) as printed:
            exec(snippets["python"], {"__name__": "__main__"})
        assert "TASK_STATE_COMPLETED" in printed.getvalue()
        if shutil.which("curl"):
            subprocess.run(["sh", "-ec", snippets["curl"]], check=True, capture_output=True, timeout=PATIENCE_S)
        proxy.flush()
        list_page = proxy.admin.get("/").text
        assert "snippet-" not in list_page
        assert text_of(list_page).count(" Hello ") >= 1


@pytest.mark.parametrize(
    ("card", "settings", "level", "said"),
    [
        ({"name": "Plain"}, {}, "warning", "its tool calls are not visible. Declare the extension in the agent"),
        ({"name": "Plain"}, {"otlp": "127.0.0.1:0"}, "warning", "captured only from traces"),
        ({"name": "Plain"}, {"negotiate": "always"}, None, "is asked for tool calls all the same"),
        (
            [],
            {"upstream": "http://127.0.0.1:9"},
            "error",
            "is unreachable, and requests fail until it is up: connection refused",
        ),
    ],
)
def test_the_header_says_what_can_be_seen_and_what_to_do(
    tmp_path: Path, card: object, settings: dict[str, object], level: str | None, said: str
) -> None:
    with shown_proxy(tmp_path, **settings) as proxy:
        proxy.agent.card = json_answer(card)
        page = proxy.admin.get("/").text
        assert said in text_of(page)
        assert (f'class="banner {level}"' in page) is (level is not None)


def test_the_list_counts_and_shows_errors_of_calls(shown: Shown) -> None:
    calls = [call("lookup"), call("refund", error="no"), *(call("more") for _ in range(6))]
    shown.store(turn("chips", "Pay back", calls, run="chips", seconds=2.5))
    text = text_of(shown.admin.get("/?run=chips").text)
    assert "turns 1 open 0 calls 8 failed 0 errored 0 p50 2.5 s p95 2.5 s" in text
    assert "Pay back lookup refund ✕ (error) more" in text
    assert "+2" in text


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("verdict=wrong", "verdict"),
        ("status=x", "status"),
        ("cursor=x", "cursor"),
        ("tag=unknown", "tag"),
        ("fragment=secret", "fragment"),
        ("q=" + "x" * 500, "q"),
    ],
)
def test_a_wrong_address_is_explained(shown: Shown, query: str, named: str) -> None:
    response = shown.admin.get(f"/?{query}")
    assert response.status_code == 400
    assert f"{named}: " in text_of(response.text)


def test_a_turn_says_where_a_call_was_seen_that_no_message_had(shown: Shown) -> None:
    shown.store(turn("timed", "When?", [call("lookup")], run="timed"))
    assert "source:" not in text_of(shown.admin.get("/turns/timed").text)
    shown.store(turn("traced", "When?", [{**call("lookup"), "source": "otel_trace"}], run="timed"))
    assert "source: OpenTelemetry" in text_of(shown.admin.get("/turns/traced").text)


def test_a_turn_whose_parent_is_not_in_the_store_says_so(shown: Shown) -> None:
    """So do those that it caused, and no turn whose parent is there, or that has none."""
    parents = {"orphan": "turn-that-was-deleted", "below-orphan": "orphan", "alone": ""}

    async def add() -> None:
        for number, (turn_id, parent) in enumerate(parents.items()):
            made = Turn.from_dict(turn(turn_id, run="orphans", start=number * 0.1, seconds=1 - number * 0.2))
            made.links = TurnLinks(client_span_id="1" * 16, parent_turn_id=parent)
            assert shown.proxy.control.store.add([made], lambda: None, {turn_id: []})
        await shown.proxy.control.store.drained()

    shown.loop.run(add())
    pages = {turn_id: text_of(shown.admin.get(f"/turns/{turn_id}").text) for turn_id in parents}
    said = {turn_id for turn_id, page in pages.items() if "is not in the store: retention has deleted it" in page}
    assert said == {"orphan", "below-orphan"}
    assert "turn-that-was-deleted" in pages["below-orphan"]
