"""The page of a conversation over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from a2a_eval_proxy.features.pages import turn_page
from a2a_eval_proxy.store import ConversationKey, ScoredConversation
from support.turn_samples import call, finding, result, turn

from .conftest import Shown, shown_proxy

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
        _finish(proxy, scored)
        yield proxy


def _finish(proxy: Shown, scored: ScoredConversation) -> None:
    async def finish() -> None:
        proxy.proxy.control.store.finish_conversations([scored], lambda: None)
        await proxy.proxy.control.store.drained()

    proxy.loop.run(finish())


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
        assert response.status_code == 404
        assert "no turns of conversation" in response.text


def test_a_long_conversation_is_cut_and_says_so(shop, monkeypatch):
    monkeypatch.setattr(turn_page, "MAX_OF_PAGE", 1)
    text = shop.admin.get("/conversations/c%2F1?run=monday").text
    assert "Only the first 1 turns" in text
    assert "Send it back." not in text.partition("Not executed")[0]
    monkeypatch.setattr(turn_page, "MAX_CHARACTERS", 10)  # then with the shortest texts
    assert shop.admin.get("/conversations/c%2F1?run=monday").status_code == 200
