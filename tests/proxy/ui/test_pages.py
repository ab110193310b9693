"""What the pages say: the snippets of the empty list work, the header says what can be seen and what to do."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from a2a_eval_proxy.features.pages import turn_page
from a2a_eval_proxy.store import ConversationKey, ScoredConversation
from a2a_eval_proxy.turn import Turn, TurnLinks
from agents.stepwise_agent import stepwise_agent
from support.patience import PATIENCE_S
from support.turn_samples import call, finding, result, turn

from .conftest import Shown, json_answer, shown_proxy, text_of


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
        assert ("snippet-" in list_page, " Hello " in text_of(list_page)) == (False, True)


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


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("verdict=wrong", "verdict"),
        ("cursor=x", "cursor"),
        ("tag=unknown", "tag"),
        ("fragment=secret", "fragment"),
        ("q=" + "x" * 500, "q"),
    ],
)
def test_a_wrong_address_is_explained(shown: Shown, query: str, named: str) -> None:
    response = shown.admin.get(f"/?{query}")
    assert (response.status_code, f"{named}: " in text_of(response.text)) == (400, True)


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


# ── forms and parts of a turn's page ────────────────────────────────────────────────────────────────────────

HOSTILE = "</pre><script>alert(1)</script>"


@pytest.fixture
def turn_id(shown: Shown) -> str:
    """A stored turn, which another process captured."""
    name = uuid.uuid4().hex
    shown.store(turn(name, HOSTILE, evaluations=[result("tool_error", 1.0)], run="work"))
    return name


def test_annotations_are_added_and_deleted_by_forms(shown: Shown, turn_id: str) -> None:
    path = f"/turns/{turn_id}/annotations"
    form = {"assessment": "wrong", "evaluator": "", "note": HOSTILE, "who": "ann"}
    added = shown.admin.post(path, data=form)
    assert (added.status_code, added.headers["location"]) == (303, f"../../turns/{turn_id}#annotations")
    page = shown.admin.get(f"/turns/{turn_id}").text
    assert ("<script>alert" in page, "&lt;/pre&gt;&lt;script&gt;" in page) == (False, True)
    (one,) = shown.admin.get(f"/api/turns/{turn_id}").json()["annotations"]
    assert (one["evaluator"], one["note"]) == (None, HOSTILE)
    assert shown.admin.post(path, data={"delete": one["annotation_id"]}).status_code == 303
    assert "annotations" not in shown.admin.get(f"/api/turns/{turn_id}").json()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"assessment=fine", 400, "assessment: expected"),
        (b"delete=none", 404, "has no annotation"),
        (b"&".join(b"a%d=1" % number for number in range(200)), 400, "Maximum number of fields is 100"),
        (b"note=" + b"x" * 70_000, 400, "maximum size of 64KB"),
        (b"\xff\x00=%ff&&&", 400, "no such field"),
    ],
)
def test_other_forms_are_refused(shown: Shown, turn_id: str, body: bytes, status: int, words: str) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = shown.admin.post(f"/turns/{turn_id}/annotations", content=body, headers=form)
    assert (refused.status_code, words in refused.text) == (status, True)


def test_pages_of_a_turn_without_wire_or_suite_say_so(shown: Shown, turn_id: str) -> None:
    assert "is not known" in shown.admin.get(f"/turns/{turn_id}/wire").text
    case = shown.admin.get(f"/turns/{turn_id}/case").text
    assert [part in case for part in ("With <code>--suite FILE</code>", "&lt;script&gt;")] == [True, True]
    assert shown.admin.get("/turns/none/case").status_code == 404
    for form, code, said in (
        ({"action": "append"}, 409, "no suite file was given"),
        ({"action": "bind", "case_id": "none"}, 404, "no case"),
    ):
        refused = shown.admin.post(f"/turns/{turn_id}/case", data=form)
        assert (refused.status_code, said in refused.text) == (code, True)


def test_hostile_events_stay_text_on_the_wire(shown: Shown) -> None:
    event = {
        "statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}},
        "x": HOSTILE,
    }
    with shown.streaming("hostile wire", [event]):
        pass
    shown.flush()
    (found,) = shown.admin.get("/api/turns", params={"q": "hostile wire"}).json()["items"]
    page = shown.admin.get(f"/turns/{found['turn_id']}/wire").text
    assert "<script>alert" not in page
    assert json.dumps(HOSTILE)[1:-1].replace("<", "&lt;").replace(">", "&gt;") in page


# ── a conversation ──────────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: orders
evaluators: [tool_error, {tool_trajectory: {scope: conversation, id: journey}}]
cases:
  - id: refund
    user_goal: Get it back.
    expect: {tool_calls: [{name: lookup}, {name: refund}]}
    turns:
      - user: Where is it?
        expect:
          tool_calls: [{name: lookup, arguments: {id: {$regex: 'O-[0-9]+'}}, result: {found: {$any: true}}}]
      - {user: Send it back., expect: {response_contains: done}}
      - {user: Never said., expect: {tool_calls: [{name: goodbye}]}}
"""
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("conversation")
    (folder / "suite.yaml").write_text(SUITE)
    with shown_proxy(folder, suite=str(folder / "suite.yaml")) as proxy:
        proxy.store(
            turn(
                "1", "Where is it?", [call("lookup", id=7)], [result("tool_error", 1.0)],
                case="refund", conversation="c/1", run="monday",
            ),
            turn(
                "2", "Send it back.", [], [result("tool_error", 0.0)], case="refund", conversation="c/1",
                run="monday", start=5, response_text=MARKUP, findings=[finding("late_spans", message=MARKUP)],
            ),
            turn("3", MARKUP, case=None, conversation="c/1", run="tuesday", start=9),
            turn(
                "5", "Where is it?", case="refund", conversation="unseen", run="plain", start=30,
                findings=[finding("no_capture", message="the card declares no extension")],
            ),
            turn("4", "dots", conversation="..", run="tuesday", start=20),
            turn(
                "6", "And that one?", [call("lookup", id=8)], conversation="others", run="plain", start=40,
                findings=[finding("uri_not_listed")],
            ),
            turn(
                "7", "Where is it?", case="refund", conversation="not finished", run="plain", start=50, status="open",
                ended_at=None, state="TASK_STATE_WORKING",
            ) | {"calls": "unknown", "calls_evidence": "no_capture"},
        )  # fmt: skip
        scored = ScoredConversation(ConversationKey("monday", "c/1", "refund"), 2, [result("journey", 0.5)])
        proxy.finish(scored)
        yield proxy


REFUND = "/conversations/c%2F1?run=monday"


@pytest.mark.parametrize(
    ("paths", "shown", "absent"),
    [
        pytest.param(
            [REFUND],
            [
                'class="changed wrong"', "/O-[0-9]+/", "<b>expected result </b>{&#34;found&#34;: any}", "Get it back.",
                "response contains", "<code>goodbye</code>", '<a href="../turns/1">Turn 1</a>', 'href="../runs/monday"',
                "alert(1)",
            ],
            [MARKUP],
            id="calls are next to the expected ones",
        ),
        pytest.param(
            ["/turns/5", "/conversations/unseen?run=plain"],
            ['title="tool calls are not visible"', '<code class="tool">lookup</code>'],
            ['class="removed"'],
            id="expected calls that nobody could see are not missing",
        ),
        pytest.param(["/turns/7"], ['title="not called yet"'], ["not visible"], id="an open turn awaits its calls"),
        pytest.param(
            ["/turns/6", "/conversations/others?run=plain", "/?run=plain"], ["others "], [], id="some calls unseen"
        ),
    ],
)  # fmt: skip
def test_what_a_page_shows(shop: Shown, paths: list[str], shown: list[str], absent: list[str]) -> None:
    for path in paths:
        text = shop.admin.get(path).text
        assert [part for part in shown if part not in text] == []
        assert [part for part in absent if part in text] == []


def test_the_parts_of_a_conversation_are_in_order(shop: Shown) -> None:
    text = shop.admin.get(REFUND).text
    places = [text.index(part) for part in ("Where is it?", "Send it back.", "Not executed", "Expected of the conv")]
    assert places == sorted(places)
    whole = text.partition("Expected of the conversation")[2]
    of_whole = ('class="removed wrong"', "Scores of the conversation", "journey", "0.50")  # refund was never called
    assert [part for part in of_whole if part not in whole] == []
    every = shop.admin.get("/conversations/c/1").text
    assert every.index('run <a href="../../runs/monday"') < every.index('run <a href="../../runs/tuesday"')
    assert "No case" in every


def test_any_id_has_a_page_and_an_unknown_one_is_named(shop):
    assert "dots" in shop.admin.get("/conversations/?name=..").text
    for path in ("/conversations/nothing", "/conversations/", "/conversations/c%2F1?run=wednesday"):
        response = shop.admin.get(path)
        assert (response.status_code, "no turns of conversation" in response.text) == (404, True)


def test_a_long_conversation_is_cut_and_says_so(shop, monkeypatch):
    monkeypatch.setattr(turn_page, "MAX_OF_PAGE", 1)
    text = shop.admin.get("/conversations/c%2F1?run=monday").text
    assert "Only the first 1 turns" in text
    assert "Send it back." not in text.partition("Not executed")[0]
    monkeypatch.setattr(turn_page, "MAX_CHARACTERS", 10)  # then with the shortest texts
    assert shop.admin.get("/conversations/c%2F1?run=monday").status_code == 200
