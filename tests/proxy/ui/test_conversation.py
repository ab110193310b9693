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
WILD = "0a0a5d5e-4444-4c1d-9f2a-00000000000"
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
            turn("8", conversation=f"{WILD}1", run="wild", start=60),
            turn("9", conversation=f"{WILD}2", run="wild", start=61),
            turn("10", conversation=f"{WILD}2", run="wild", start=62),
        )  # fmt: skip
        scored = ScoredConversation(ConversationKey("monday", "c/1", "refund"), 2, [result("journey", 0.5)])
        _finish(proxy, scored)
        yield proxy


def _finish(proxy: Shown, scored: ScoredConversation) -> None:
    async def finish() -> None:
        proxy.proxy.control.store.finish_conversations([scored], lambda: None)
        await proxy.proxy.control.store.drained()

    proxy.loop.run(finish())


def test_turns_are_in_order_with_their_calls_next_to_the_expected_ones(shop):
    text = shop.admin.get("/conversations/c%2F1?run=monday").text
    places = [text.index(part) for part in ("Where is it?", "Send it back.", "Not executed", "Expected of the conv")]
    assert places == sorted(places)
    assert 'class="changed wrong"' in text
    assert "/O-[0-9]+/" in text
    assert "<b>expected result </b>{&#34;found&#34;: any}" in text
    assert "Get it back." in text
    assert "response contains" in text
    assert "<code>goodbye</code>" in text
    assert '<a href="../turns/1">Turn 1</a>' in text
    assert 'href="../runs/monday"' in text
    assert MARKUP not in text
    assert "alert(1)" in text


def test_expected_calls_of_a_turn_whose_calls_are_not_visible_are_not_missing(shop):
    for path in ("/turns/5", "/conversations/unseen?run=plain"):
        text = shop.admin.get(path).text
        assert 'title="tool calls are not visible"' in text
        assert '<code class="tool">lookup</code>' in text
        assert 'class="removed"' not in text


def test_calls_of_an_open_turn_are_awaited(shop):
    text = shop.admin.get("/turns/7").text
    assert 'title="not called yet"' in text
    assert "not visible" not in text


def test_calls_that_nobody_saw_are_named_next_to_those_that_were_seen(shop):
    for path in ("/turns/6", "/conversations/others?run=plain", "/?run=plain"):
        assert "others " in shop.admin.get(path).text, path
    rows = shop.admin.get("/?run=plain").text
    assert rows.count("not visible</span>") == 2
    assert rows.count("others not visible</span>") == 1


def test_the_conversation_as_a_whole_has_its_expectations_and_results(shop):
    text = shop.admin.get("/conversations/c%2F1?run=monday").text
    whole = text.partition("Expected of the conversation")[2]
    assert 'class="removed wrong"' in whole  # refund was expected and never called
    assert "Scores of the conversation" in whole
    assert "journey" in whole
    assert "0.50" in whole


def test_without_a_run_the_parts_of_all_runs_follow_each_other(shop):
    text = shop.admin.get("/conversations/c/1").text
    assert text.index('run <a href="../../runs/monday"') < text.index('run <a href="../../runs/tuesday"')
    assert "No case" in text


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
