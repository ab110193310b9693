"""What every store does: what is committed stays, whatever the turns hold. The same tests for SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import math
import random
import sqlite3
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.store import (
    ConversationKey,
    Scored,
    ScoredConversation,
    SqliteStore,
    TurnQuery,
    reads,
)
from a2a_eval_proxy.store.base import KeptVerdict, Limits, RunVerdict
from a2a_eval_proxy.store.encoding import encoded_turn, stored_text
from a2a_eval_proxy.store.reads import MOST_OF_A_TURN, Annotation, turn_summary
from a2a_eval_proxy.store.turn_filter import VERDICTS, TurnFilter, turn_verdict
from a2a_eval_proxy.store.webhooks import Webhook
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall, ToolCallSource
from hypothesis import given
from hypothesis import strategies as st
from support.kept import Kept, result, turn
from support.patience import PATIENCE_S

# ── retention ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_old_turns_go_with_what_was_said_of_them(kept: Kept) -> None:
    await kept.add(*(turn(number, conversation_id=f"c{number}") for number in range(5)))
    await kept.finish_conversations(
        *(ScoredConversation(ConversationKey("nightly", f"c{number}", None), 1, [result()]) for number in range(5))
    )
    await kept.store.judge_cache.put("kept just now", {"value": "fine"})
    for limits, left in ((Limits(), 5), (Limits(0, 100_000_000), 5), (Limits(turn(3).started_at), 2)):
        await kept.store.pruned(limits)
        assert len(await kept.ids()) == left
    assert await kept.ids() == ["turn-0003", "turn-0004"]
    assert sorted(one.key.conversation_id for one in await kept.store.conversations()) == ["c3", "c4"]
    assert await kept.store.judge_cache.get("kept just now") == {"value": "fine"}


async def test_the_oldest_turns_go_where_there_is_too_much(kept: Kept) -> None:
    noise = random.Random(1)
    texts = [b64encode(noise.randbytes(37_500)).decode() for _ in range(400)]
    await kept.add(*(turn(number, user_text=text) for number, text in enumerate(texts)))
    await kept.store.judge_cache.put("kept just now", {"value": "fine"})
    kept.store.prune(Limits(max_bytes=5_000_000))
    await kept.store.drained()
    left = await kept.ids(limit=1000)
    assert 1 <= len(left) <= 200
    assert left == [f"turn-{number:04}" for number in range(400)][-len(left) :]
    assert await kept.store.judge_cache.get("kept just now") == {"value": "fine"}


# ── annotations ─────────────────────────────────────────────────────────────────────────────────────────────


def annotation(number: int, turn_id: str = "turn-0001", **fields: Any) -> Annotation:
    return Annotation(f"{number:032x}", turn_id, "wrong", f"note {number}", "ann", "2026-11-22T19:00:00Z", **fields)


async def test_annotations_come_with_their_turn_in_the_order_in_which_they_were_made(kept: Kept) -> None:
    await kept.add(turn(1), turn(2))
    first, second = annotation(1), annotation(2, evaluator="tool_error", score=0.5, passed=False, version="1")
    assert await kept.store.annotate(second)
    assert await kept.store.annotate(first)
    (annotated, other) = (await kept.store.turns(TurnQuery())).items
    assert annotated["annotations"] == [first.to_dict(), second.to_dict()]
    assert "annotations" not in other
    stored = await kept.store.turn("turn-0001")
    assert stored == annotated
    assert Turn.from_dict(stored) == turn(1)
    gone = [await kept.store.remove_annotation(turn_id, first.annotation_id) for turn_id in (TWO, ONE, ONE)]
    assert gone == [False, True, False], "once, and only from its turn"
    assert (await kept.store.turn("turn-0001") or {})["annotations"] == [second.to_dict()]


async def test_only_a_stored_turn_is_annotated_and_not_without_limit(kept: Kept) -> None:
    assert not await kept.store.annotate(annotation(1))
    await kept.add(turn(1))
    taken = [await kept.store.annotate(annotation(number)) for number in range(MOST_OF_A_TURN + 1)]
    assert taken == [True] * MOST_OF_A_TURN + [False]


async def test_a_turn_that_is_scored_again_keeps_its_annotations_and_a_deleted_one_takes_them_with_it(
    kept: Kept,
) -> None:
    await kept.add(turn(1), turn(2), turn(3))
    for number in (1, 2, 3):
        await kept.store.annotate(annotation(number, f"turn-{number:04}"))
    await kept.finish(Scored("turn-0003", [result()], turn(3, user_text="merged")))
    kept.store.prune(Limits(turn(2).started_at))
    await kept.store.drained()
    discarded = asyncio.Event()
    kept.store.discard(["turn-0002"], partial(asyncio.get_running_loop().call_soon_threadsafe, discarded.set))
    await discarded.wait()
    await kept.add(turn(1), turn(2))  # other turns of the same ids: they have no annotations
    assert {
        item["turn_id"]: len(item.get("annotations", ())) for item in (await kept.store.turns(TurnQuery())).items
    } == {
        "turn-0003": 1,
        "turn-0001": 0,
        "turn-0002": 0,
    }


async def test_a_run_keeps_its_verdict_until_its_last_turn_goes(kept: Kept) -> None:
    """What `run` said stands; what follows traffic is pending once results came, and never replaces the other."""
    run = "r" * 5_000
    await kept.add(turn(1, run=run), turn(2, run="live"), turn(3, run="none"))
    live = KeptVerdict("s", {"judges": []}, "passed", {"whole": {}}, "none yet", "1 of 1")
    await kept.store.keep_verdict(run, replace(live, status="failed", of=""))
    for name in (run, "live"):
        await kept.store.keep_verdict(name, live)
    await kept.store.judged(run, live)
    found = {summary.name: summary for summary in await kept.store.runs()}
    assert found[run].verdict == RunVerdict("s", "failed", "1 of 1")
    assert found["live"].verdict == RunVerdict("s", "pending")
    assert found["none"].verdict is None
    judged = replace(live, of=found["live"].numbers)
    await kept.store.judged("live", judged)
    assert await kept.store.kept_verdict("live") == judged
    assert [one.verdict for one in await kept.store.runs("live")] == [RunVerdict("s", "passed", "1 of 1")]
    await kept.store.pruned(Limits(1e11))
    assert await kept.store.kept_verdict(run) is None


async def test_a_calibration_replaces_that_of_the_same_judge_and_results_say_what_it_says(kept: Kept) -> None:
    judge = {"model": "m", "prompt": "p@1", "key": "k"}
    judged = result("passed", evaluator="helpfulness", score=4.0, threshold=3.0, details={"judge": judge})
    await kept.add(turn(1, conversation_id="c"), results={"turn-0001": [judged]})
    await kept.finish_conversations(ScoredConversation(ConversationKey("nightly", "c", None), 1, [judged]))
    made = {
        "key": "k", "metric": "helpfulness", "at": "2026-11-28T09:00:00Z", "model": "m", "prompt": "p@1",
        "threshold": 3.0, "enough": False, "labelled_turns": 7,
    }  # fmt: skip
    await kept.store.put_calibration({**made, "key": "other"})
    await kept.store.put_calibration(made)
    await kept.store.put_calibration({**made, "labelled_turns": 8})
    of_turn, (whole,) = await kept.store.turn("turn-0001") or {}, await kept.store.conversations()
    (listed,) = (await kept.store.turns(TurnQuery())).items
    said = [
        found[0]["details"]["judge"]["calibration"]["text"]
        for found in (of_turn["evaluations"], listed["evaluations"], whole.evaluations)
    ]
    stale = "calibration is stale: it was of turns, and is of conversations"
    assert said == [*["not calibrated: 8 labelled turns, 50 are needed"] * 2, stale]


async def test_the_newest_scored_conversations_come_with_their_first_turn(kept: Kept) -> None:
    of = {"status": "done", "conversation_id": "c"}
    await kept.add(turn(1, case_id="x", **of), turn(2, **of), turn(3, run="monday", case_id="x", **of))
    await kept.add(turn(4, case_id="x", **of), turn(5, status="done", conversation_id="d"))
    await kept.finish_conversations(conversation("c", "x", 2), conversation("c", None, 1, "failed"))
    found = await kept.store.newest_conversations(None, 10)
    assert [(first, [one["status"] for one in results]) for first, results in found] == [
        ("turn-0001", ["passed"]),
        ("turn-0002", ["failed"]),
    ]
    assert [first for first, _ in await kept.store.newest_conversations("nightly", 2)] == ["turn-0001"]
    assert await kept.store.newest_conversations("monday", 10) == []


async def test_annotations_of_all_turns_of_a_run(kept: Kept) -> None:
    await kept.add(turn(1), turn(2, run="monday"))
    for number in (1, 2):
        label = annotation(number, f"turn-000{number}", label=4.0, evaluator="helpfulness", by="model")
        assert await kept.store.annotate(replace(label, assessment=None))
    assert {one["turn_id"] for one in await kept.store.annotations()} == {"turn-0001", "turn-0002"}
    (one,) = await kept.store.annotations("monday")
    assert (one["label"], one["by"], one["assessment"]) == (4.0, "model", None)


# ── stories: what is written, and what is to be found then ──────────────────────────────────────────────────

Step = Callable[[Kept], Awaitable[object]]
ONE, TWO, THREE = "turn-0001", "turn-0002", "turn-0003"


def adds(*turns: Turn, **how: Any) -> Step:
    return lambda kept: kept.add(*turns, **how)


def finishes(*scored: Scored) -> Step:
    return lambda kept: kept.finish(*scored)


def waits(change: Callable[[Kept], object]) -> Step:
    """The change waits with those before it; what comes next finds it made."""

    async def make(kept: Kept) -> None:
        change(kept)

    return make


async def drained(kept: Kept) -> None:
    await kept.store.drained()


def ids(expected: str, **query: Any) -> Step:
    """The last digits of the ids that are found."""

    async def check(kept: Kept) -> None:
        assert "".join(one[-1] for one in await kept.ids(**query)) == expected

    return check


def shows(what: Callable[[dict[str, Any]], Any], *expected: Any, **query: Any) -> Step:
    """What is found of each turn."""

    async def check(kept: Kept) -> None:
        assert [what(item) for item in (await kept.store.turns(TurnQuery(**query))).items] == [*expected]

    return check


def merged(number: int, **fields: Any) -> Turn:
    return turn(number, tool_calls=[ToolCall("from_the_trace")], **fields)


def is_open(number: int, **fields: Any) -> Turn:
    return turn(number, **{"status": "open", "ended_at": None, "task_id": "t", **fields})


def outcome(item: dict[str, Any]) -> Any:
    return item["status"], [one["status"] for one in item["evaluations"]], len(item["tool_calls"])


def answer(item: dict[str, Any]) -> Any:
    return item["status"], item["response_text"], len(item["evaluations"])


PASSED, FAILED, SKIPPED = result("passed"), result("failed"), result("skipped")
OLD = {"case_id": "old"}
STORIES: dict[str, list[Step]] = {
    "turns are found by run, conversation, case and status": [
        adds(turn(1, run="a", conversation_id="c1", case_id="x"), turn(2, run="a", conversation_id="c2")),
        adds(turn(3, run="b", conversation_id="c1", case_id="y")),
        finishes(Scored(THREE, [])),
        ids("12", run="a"),
        ids("13", conversation="c1"),
        ids("3", case="y"),
        ids("1", run="a", conversation="c1"),
        ids("3", status="done"),
        ids("", run="nobody"),
    ],
    "a turn that changed case is found by the new one": [
        adds(turn(1, **OLD), turn(2, **OLD)),
        finishes(Scored(ONE, [PASSED], turn(1, case_id="new")), Scored(TWO, [PASSED])),
        ids("1", case="new"),
        ids("2", case="old"),
    ],
    "finishing again replaces the results, and what is not there harms nobody": [
        adds(turn(1)),
        finishes(Scored("nobody", [PASSED]), Scored(ONE, [FAILED, SKIPPED])),
        finishes(Scored(ONE, [PASSED])),
        shows(outcome, ("done", ["passed"], 0)),
    ],
    "finishing may change the turn itself": [
        adds(turn(1), turn(2)),
        finishes(Scored(ONE, [], merged(1)), Scored(TWO, [])),
        shows(outcome, ("done", [], 1), ("done", [], 0)),
    ],
    "a turn scored before it is written is done at once, and added twice it is one": [
        adds(turn(1, response_text="first"), turn(2), results={ONE: [PASSED]}),
        adds(turn(1, response_text="second")),
        shows(answer, ("done", "first", 1), ("pending", "", 0)),
    ],
    "of two results written together the later one counts": [
        adds(turn(1)),
        waits(lambda kept: kept.store.finish([Scored(ONE, [FAILED], merged(1))], lambda: None)),
        waits(lambda kept: kept.store.finish([Scored(ONE, [PASSED])], lambda: None)),
        drained,
        shows(outcome, ("done", ["passed"], 1)),
    ],
    "a turn that is added again is pending with what is known now": [
        adds(turn(1), turn(2), held=[ONE]),
        finishes(Scored(TWO, [PASSED])),
        waits(lambda kept: kept.store.add([merged(1), merged(2)], lambda: None, again=True)),
        drained,
        shows(outcome, ("pending", [], 1), ("pending", ["passed"], 1)),  # until it is scored again
    ],
    "what is added again replaces results that wait with it": [
        adds(turn(1)),
        waits(lambda kept: kept.store.finish([Scored(ONE, [PASSED], turn(1))], lambda: None)),
        waits(lambda kept: kept.store.add([turn(1, response_text="now")], lambda: None, again=True)),
        drained,
        shows(answer, ("pending", "now", 1)),
    ],
    "an open turn is replaced until it is closed": [
        adds(is_open(1, response_text="begun"), turn(2)),
        adds(is_open(1, response_text="not finished")),
        shows(answer, ("open", "not finished", 0), status="open"),
        adds(turn(1, task_id="t", response_text="over")),
        adds(turn(1, task_id="t", response_text="another process"), is_open(1, response_text="late")),
        shows(answer, ("pending", "over", 0), ("pending", "", 0)),
    ],
    "an open turn and its end are written together": [
        waits(lambda kept: kept.store.add([is_open(1)], lambda: None)),
        adds(turn(1, task_id="t", response_text="over"), results={ONE: [PASSED]}),
        shows(answer, ("done", "over", 1)),
    ],
}


@pytest.mark.parametrize("steps", STORIES.values(), ids=STORIES)
async def test_a_story(kept: Kept, steps: list[Step]) -> None:
    for step in steps:
        await step(kept)


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_comes_back_as_it_was(kept: Kept) -> None:
    call = ToolCall("search", {"q": "ü", "n": [1, 2.5, None]}, "1", "42", None, ToolCallSource.A2A_PROTOCOL)
    original = turn(1, tool_calls=[call], findings=[Finding("odd", "seen")], user_text="hi ☃", case_id="c", state="S")
    original.usage, original.shown_by = {"input_tokens": 12, "cost": 0.5}, ""
    await kept.add(original)
    stored = await kept.store.turn("turn-0001")
    assert stored == {**original.to_dict(), "status": "pending", "evaluations": []}
    assert Turn.from_dict(stored) == original


async def test_a_turn_that_is_discarded_is_gone_with_what_was_said_of_its_conversation(kept: Kept) -> None:
    await kept.add(turn(1, conversation_id="c", case_id="x"), turn(2, conversation_id="d", case_id="x"))
    await kept.finish_conversations(conversation("c", "x", 1), conversation("d", "x", 1))
    kept.store.discard(["turn-0001", "nobody"], lambda: None)
    await kept.store.drained()
    assert await kept.ids() == ["turn-0002"]
    assert [found.key.conversation_id for found in await kept.store.conversations()] == ["d"]


# ── finding them again ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_paging_sees_every_turn_once_in_order(kept: Kept, limit: int) -> None:
    await kept.add(*(turn(number) for number in range(7)))
    ids = [f"turn-{number:04}" for number in range(7)]
    assert await kept.pages(limit=limit) == [ids[start : start + limit] for start in range(0, 7, limit)]


async def test_a_page_ends_where_its_turns_are_large(kept: Kept) -> None:
    """One that is larger than a page ends it."""
    sizes = [3, 3, 3, 0, 12, 0, 3]
    await kept.add(*(turn(n, task_id="t", user_text="é" * (mib << 19)) for n, mib in enumerate(sizes)))
    pages = await kept.pages(limit=1000)
    assert [[turn_id[-1] for turn_id in ids] for ids in pages] == [["0", "1", "2"], ["3", "4"], ["5", "6"]]
    assert [item["turn_id"][-1] for item in await kept.store.of_task("t", "http://agent", 200)] == ["4", "5", "6"]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "²", "1; DROP TABLE turns", "1.5"])
async def test_a_cursor_of_ones_own_making(kept: Kept, cursor: str) -> None:
    with pytest.raises(ValueError, match="next_cursor"):
        await kept.store.turns(TurnQuery(cursor=cursor))


@pytest.mark.parametrize("limit", [-5, 0, 10**6])
async def test_a_limit_out_of_range_is_brought_into_it(kept: Kept, limit: int) -> None:
    await kept.add(turn(1), turn(2))
    assert 1 <= len((await kept.store.turns(TurnQuery(limit=limit))).items) <= 2


async def test_runs_in_numbers(kept: Kept) -> None:
    await kept.add(turn(1, run="a"), turn(2, run="a"), turn(3, run="b"), turn(4, run="a", ended_at=None))
    await kept.finish(
        Scored("turn-0001", [result("passed"), result("failed"), result("skipped")]),
        Scored("turn-0003", [result("errored"), result("scored")]),
    )
    one, other = await kept.store.runs()
    assert (one.name, one.turns, one.pending) == ("a", 3, 2)
    assert (one.passed, one.failed, one.errored, one.skipped) == (1, 1, 0, 1)
    assert (one.started_at, one.ended_at) == (turn(1).to_dict()["started_at"], turn(2).to_dict()["ended_at"])
    assert (other.name, other.turns, other.pending, other.errored) == ("b", 1, 0, 1)
    assert await kept.store.runs("b") == [other]
    assert await kept.store.runs("nobody") == []


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────


def conversation(conversation_id: str, case_id: str | None, turns: int, status: str = "passed") -> ScoredConversation:
    return ScoredConversation(ConversationKey("nightly", conversation_id, case_id), turns, [result(status)])


async def test_what_is_said_of_conversations_is_replaced_as_a_whole(kept: Kept) -> None:
    await kept.add(turn(1, conversation_id="c", case_id="x"))
    await kept.finish_conversations(conversation("c", "x", 1, "failed"), conversation("c", None, 1))
    await kept.finish_conversations(conversation("c", "x", 2))
    found = await kept.store.conversations(run="nightly", conversation="c")
    assert sorted(found, key=lambda one: one.turns) == [conversation("c", None, 1), conversation("c", "x", 2)]
    assert await kept.store.conversations(run="another") == []
    (summary,) = await kept.store.runs()
    assert (summary.passed, summary.failed) == (2, 0)


async def test_conversations_of_which_nothing_was_said_yet(kept: Kept) -> None:
    await kept.add(
        turn(1, conversation_id="c", case_id="x"),
        turn(2, conversation_id="d", case_id="x"),
        turn(3, conversation_id="d", case_id="x"),
        turn(4, conversation_id="without case"),
        turn(5, conversation_id="pending", case_id="x"),
        turn(6, conversation_id="said", case_id="x"),
    )
    await kept.finish(*(Scored(f"turn-000{number}", []) for number in (1, 2, 3, 4, 6)))
    await kept.finish_conversations(conversation("said", "x", 1), conversation("d", "x", 1))
    unscored = await kept.store.unscored_conversations(100)
    assert unscored == [ConversationKey("nightly", "c", "x"), ConversationKey("nightly", "d", "x")]
    assert await kept.store.positions(100) == {
        ("nightly", "x", "c"): 1,
        ("nightly", "x", "d"): 2,
        ("nightly", "x", "said"): 1,
    }
    assert await kept.store.positions(1) == {("nightly", "x", "said"): 1}


async def test_the_turns_before_a_turn(kept: Kept) -> None:
    turns = [turn(number, conversation_id="c", run=run) for number, run in enumerate(["a", "a", "b", "a", "a"])]
    await kept.add(*turns)
    earlier = await kept.store.earlier(turns[3], 10)
    assert [item["turn_id"] for item in earlier] == ["turn-0000", "turn-0001"]
    assert [item["turn_id"] for item in await kept.store.earlier(turns[4], 1)] == ["turn-0003"]
    assert await kept.store.earlier(turn(9), 10) == []


async def test_answers_of_judges_are_kept(kept: Kept) -> None:
    cache = kept.store.judge_cache
    assert await cache.get("a") is None
    await cache.put("a", {"value": "first"})
    await cache.put("a", {"value": "a\x00b \U0001f600"})
    assert await cache.get("a") == {"value": "a\x00b \U0001f600"}


# ── anything an agent may say ───────────────────────────────────────────────────────────────────────────────

LONE_SURROGATE = "\ud800"  # legal in JSON, but not in UTF-8
ODD_TEXTS = [LONE_SURROGATE, "a\x00b", "\U0001f600", "'\"\\", "x" * 100_000]


@pytest.mark.parametrize("text", [*ODD_TEXTS, r"a\u0000\\u0000", "a\\\x00"])
async def test_texts_of_any_kind(kept: Kept, text: str) -> None:
    said = {"user_text": text, "response_text": text, "tool_calls": [ToolCall(text, {text: text}, text, text)]}
    await kept.add(turn(1, **said, agent_card={"name": text, "version": "1.4"}))
    stored = await kept.store.turn("turn-0001") or {}
    kept_text = "\ufffd" if text == LONE_SURROGATE else text
    assert (stored["user_text"], stored["tool_calls"][0]["arguments"]) == (kept_text, {kept_text: kept_text})
    assert json.dumps(stored, ensure_ascii=False, allow_nan=False).encode()
    assert [(run, card["version"]) for run, card in await kept.store.agent_cards(10)] == [("nightly", "1.4")]
    assert (await kept.store.figures()).turns == 1


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_ids_of_any_kind(kept: Kept, text: str) -> None:
    """Ids come from the wire too. One that cannot be stored must not stop the others."""
    fields = ("conversation_id", "case_id", "run", "task_id", "trace_id")
    for number, field in enumerate(fields):
        await kept.add(turn(number, **{field: text}))
    await kept.add(turn(9))
    assert await kept.ids() == [*(f"turn-{number:04}" for number in range(len(fields))), "turn-0009"]
    for number, field in enumerate(fields[:3]):  # those by which turns are chosen
        assert await kept.ids(**{field.removesuffix("_id"): text}) == [f"turn-{number:04}"]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**300, 1e308, -0.0, math.inf, math.nan])
async def test_numbers_of_any_size(kept: Kept, number: float) -> None:
    await kept.add(turn(1, tool_calls=[ToolCall("pay", {"eur": number, "note": LONE_SURROGATE})]), turn(2))
    await kept.finish(Scored("turn-0001", [result()]))
    stored = await kept.store.turn("turn-0001") or {}
    assert stored["tool_calls"][0]["arguments"]["eur"] == (number if math.isfinite(number) else None)
    assert json.dumps(stored, ensure_ascii=False, allow_nan=False).encode()
    (summary,) = await kept.store.runs()
    assert (summary.turns, summary.passed) == (2, 1)


ENDLESS: dict[str, Any] = {"deeper": []}
ENDLESS["deeper"].append(ENDLESS)


@pytest.mark.parametrize(
    "details", [{"seen": {1, 2}}, {"when": object()}, {"big": 10**30}, {1: 2}, {"text": LONE_SURROGATE}, ENDLESS]
)
async def test_an_evaluator_with_odd_details_stops_nobody(kept: Kept, details: Any) -> None:
    await kept.add(turn(1), turn(2))
    await kept.finish(Scored("turn-0001", [result(details=details)]), Scored("turn-0002", [result()]))
    assert await kept.ids(status="done") == ["turn-0001", "turn-0002"]
    assert len(await kept.store.runs()) == 1


async def test_turns_of_other_agents_do_not_hide_those_of_an_agent(kept: Kept) -> None:
    """Equal ids, as agents and clients choose them."""
    ids: dict[str, Any] = {"task_id": "t", "conversation_id": "c", "case_id": "case"}
    mine = [turn(n, agent_name="orders", **ids) for n in range(3)]
    await kept.add(*mine, turn(5, agent_name="orders", conversation_id="c"))
    others = [turn(n, agent_name="refunds" if n % 2 else None, **ids) for n in range(1_000, 2_000)]
    await kept.add(*others, results={one.turn_id: [result()] for one in others})
    await kept.add(turn(3_000, agent_name="orders", **ids))
    expected = ["turn-0000", "turn-0001", "turn-0002"]
    last = turn(3_000, **ids)

    assert [item["turn_id"] for item in await kept.store.of_task("t", "orders", 4)] == [*expected, last.turn_id]
    assert [item["turn_id"] for item in await kept.store.of_task("t", "http://agent", 2)] == ["turn-1996", "turn-1998"]
    assert await kept.store.of_task("t", "unknown", 4) == []
    earlier = await kept.store.earlier(last, 4, "orders")
    assert [item["turn_id"] for item in earlier] == [*expected, "turn-0005"]
    of_case = await kept.store.earlier(last, 4, "orders", "case")
    assert [item["turn_id"] for item in of_case] == expected
    assert await kept.ids(agent="orders") == [*expected, "turn-0005", last.turn_id]
    assert await kept.ids(agent="orders", newest_first=True, limit=2) == [last.turn_id, "turn-0005"]
    await kept.finish(*(Scored(turn_id, [result()]) for turn_id in expected))
    await kept.store.drained()
    assert await kept.store.positions(5, "orders") == {("nightly", "case", "c"): 3}
    assert [key.conversation_id for key in await kept.store.unscored_conversations(5, "orders")] == ["c"]
    assert await kept.store.positions(2, "orders") == {}


# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


HOOK = Webhook("id-1", "https://client.example/hook?secret=1", asked=1, registered_at=1_000)


async def test_a_webhook_is_stored_and_learns_its_task_and_configuration(kept: Kept) -> None:
    table = kept.store.webhooks
    await table.add(HOOK)
    assert await table.get("id-1") == HOOK
    assert await table.get("id-2") is None
    assert not await table.has_active("task")
    await table.set_task("id-1", "task")
    await table.set_task("id-1", "another")
    await table.set_config("id-1", "config")
    assert await table.get("id-1") == replace(HOOK, task_key="task", config_key="config")
    assert await table.has_active("task")


async def test_webhooks_of_ended_tasks_and_old_ones_expire(kept: Kept) -> None:
    table = kept.store.webhooks
    for name, task, registered_at in (("ended", "a", 1_000), ("working", "b", 1_000), ("old", "c", 500)):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, registered_at=registered_at))
    await table.task_ended("a", 2_000.5)
    await table.task_ended("a", 9_000)
    assert [await table.has_active(task) for task in "abc"] == [False, True, True]
    await table.expire(2_000, 500, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [True, True, True]
    await table.expire(2_001, 501, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [False, True, False]


async def test_webhooks_of_an_agent_expire_with_its_turns(kept: Kept) -> None:
    table = kept.store.webhooks
    for name in ("orders", "refunds"):
        await table.add(replace(HOOK, webhook_id=name, agent_name=name, registered_at=500))
    await table.expire(0, 0, 501, "orders")
    assert [bool(await table.get(name)) for name in ("orders", "refunds")] == [False, True]


async def test_a_deleted_configuration_takes_its_webhook_and_no_other(kept: Kept) -> None:
    table = kept.store.webhooks
    for name, task, config in (("1", "a", "x"), ("2", "a", "y"), ("3", "b", "x")):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, config_key=config))
    await table.remove("a", "x")
    assert [bool(await table.get(name)) for name in "123"] == [False, True, True]


# ── turns by their content, newest first, in short ──────────────────────────────────────────────────────────


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content", [TurnFilter(), TurnFilter(text="hello", verdict="unscored")])
async def test_the_newest_come_first_and_each_once_while_turns_arrive(kept: Kept, content: TurnFilter) -> None:
    await kept.add(*(turn(number, user_text="Hello") for number in range(5)))
    first = await kept.store.turns(TurnQuery(newest_first=True, limit=2, content=content))
    await kept.add(turn(5, user_text="Hello"), turn(6))
    assert [item["turn_id"][-1] for item in first.items] == ["4", "3"]
    rest = await kept.ids(newest_first=True, cursor=first.next_cursor, content=content)
    assert rest == ["turn-0002", "turn-0001", "turn-0000"]
    assert (await kept.ids(newest_first=True))[:2] == ["turn-0006", "turn-0005"]
    assert await kept.ids(newest_first=True, run="another") == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_by_content_ends_after_a_number_of_turns(
    kept: Kept, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for something rare does not read a large store at once."""
    monkeypatch.setattr(reads, "MAX_EXAMINED", 3)
    await kept.add(*(turn(number, user_text="rare" if number in (1, 8) else "") for number in range(9)))
    await kept.add(turn(9, run="other", user_text="rare"))
    query = {"content": TurnFilter(text="rare"), "newest_first": newest_first}
    found = await kept.pages(run="nightly", **query)
    expected = [["turn-0001"], [], ["turn-0008"], []]
    assert found == ([["turn-0008"], [], ["turn-0001"], []] if newest_first else expected)
    assert [*chain(*await kept.pages(**query))] == sorted(["turn-0001", "turn-0008", "turn-0009"], reverse=newest_first)


# ── content ─────────────────────────────────────────────────────────────────────────────────────────────────


async def some_turns(kept: Kept) -> None:
    await kept.add(
        turn(1, user_text="Where is my PARCEL?", tool_calls=[ToolCall("track", {"id": 'TRK-"7"'})], case_id="parcel"),
        turn(2, response_text="Größe: 100% of it_", tool_calls=[ToolCall("size", {}, error="boom"), ToolCall("track")]),
        turn(3, findings=[Finding("no_capture", "not seen")], case_id="Refund"),
        turn(4, user_text="tracking"),
        turn(5, tool_calls=[ToolCall('a\\b\n"c', {"x": "ΣΊΣΥΦΟΣ"}, result="secret result")]),
        turn(6),
    )
    await kept.finish(
        Scored("turn-0001", [result("passed"), result("skipped", evaluator="judge")]),
        Scored("turn-0002", [result("failed"), result("errored", evaluator="judge")]),
        Scored("turn-0003", [result("skipped"), result("errored", evaluator="judge", details={"status": "failed"})]),
        Scored("turn-0004", [result("skipped"), result("skipped", evaluator="judge")]),
        Scored("turn-0005", [result("scored")]),
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"text": "parcel"}, "1"),  # user text and case, in letters of any case
        ({"text": "GRÖSSE"}, ""),
        ({"text": "gRÖße"}, "2"),
        ({"text": "100% of"}, "2"),
        ({"text": "it_"}, "2"),
        ({"text": "itx"}, ""),
        ({"text": "track"}, "124"),
        ({"text": 'trk-\\"7'}, "1"),  # as in the JSON of the arguments
        ({"text": "TRK-"}, "1"),
        ({"text": "σίσυφος"}, "5"),
        ({"text": "refund"}, "3"),
        ({"text": "secret"}, ""),  # results are not searched
        ({"text": "tool_calls"}, ""),  # the database finds it in the JSON of each turn
        ({"text": 'b\n"c'}, "5"),
        ({"text": "x" * 60_000}, ""),
        ({"tool": "track"}, "12"),
        ({"tool": "Track"}, ""),
        ({"tool": "tra"}, ""),
        ({"tool": 'a\\b\n"c'}, "5"),
        ({"tool": "tr%ck"}, ""),
        ({"finding": "no_capture"}, "3"),
        ({"finding": "no-capture"}, ""),
        ({"evaluator": "judge"}, "1234"),
        ({"evaluator": "JUDGE"}, ""),
        ({"verdict": "failed"}, "2"),
        ({"verdict": "errored"}, "3"),
        ({"verdict": "passed"}, "15"),
        ({"verdict": "skipped"}, "4"),
        ({"verdict": "unscored"}, "6"),
        ({"verdict": "errored", "evaluator": "judge"}, "23"),
        ({"verdict": "skipped", "evaluator": "judge"}, "14"),
        ({"verdict": "unscored", "evaluator": "judge"}, ""),
        ({"cases": frozenset({"parcel", "Refund", "unknown"})}, "13"),
        ({"cases": frozenset()}, ""),
        ({"tool": "track", "verdict": "passed", "text": "where", "cases": frozenset({"parcel"})}, "1"),
    ],
)
async def test_turns_by_their_content(kept: Kept, content: dict[str, Any], expected: str) -> None:
    await some_turns(kept)
    query = TurnFilter(**content)
    ids = [f"turn-000{number}" for number in expected]
    assert await kept.ids(content=query) == ids
    assert await kept.ids(content=query, newest_first=True, run="nightly") == ids[::-1]
    assert [*chain(*await kept.pages(content=query, limit=1))] == ids


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_patterns_find_every_turn_that_matches(before: str, text: str, after: str) -> None:
    """With LIKE as SQLite has it; ASCII letters of either case are equal in both databases."""
    text = stored_text(text)
    body = encoded_turn(turn(1, user_text=before + text + after, tool_calls=[ToolCall(text)])).body.decode()
    with sqlite3.connect(":memory:") as connection:
        for content in (TurnFilter(text=text), TurnFilter(text=text.upper()), TurnFilter(tool=text)):
            if content.matches(body, "[]"):
                for _, pattern in content.patterns():
                    found = connection.execute("SELECT ? LIKE ? ESCAPE '!'", (body, pattern)).fetchone()
                    assert found == (1,), pattern
    assert TurnFilter(tool=text).matches(body, "[]")
    assert TurnFilter(text=text).matches(body, "[]")


async def test_searches_leave_threads_for_other_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(str(tmp_path / "turns.db"))
    kept = Kept(store)
    await kept.add(turn(1, conversation_id="c"))
    go = threading.Event()
    monkeypatch.setattr(TurnFilter, "matches", lambda *_: go.wait(PATIENCE_S))
    searches = [asyncio.create_task(kept.ids(conversation="c", content=TurnFilter(text="turn"))) for _ in range(50)]
    await asyncio.sleep(0)
    assert await store.cursor_after("turn-0001")
    assert not any(search.done() for search in searches)
    go.set()
    assert [await search for search in searches] == [["turn-0001"]] * 50
    await asyncio.to_thread(store.close)


async def test_an_unknown_status_is_refused(kept: Kept) -> None:
    with pytest.raises(ValueError, match="status: expected one of open, pending, done, got 'bogus'"):
        await kept.store.turns(TurnQuery(status="bogus"))


# ── verdicts, summaries ─────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.sampled_from(["passed", "failed", "scored", "skipped", "errored"])))
def test_the_verdict_is_that_of_the_worst_result(statuses: list[str]) -> None:
    verdict = turn_verdict([{"status": status} for status in statuses])
    as_verdicts = ["passed" if status == "scored" else status for status in statuses] or ["unscored"]
    assert verdict == min(as_verdicts, key=VERDICTS.index)


async def test_a_turn_in_short(kept: Kept) -> None:
    calls = [ToolCall("track", {"id": "x" * 1000}, "y" * 1000), ToolCall("refund", {}, error="boom")]
    await kept.add(
        turn(
            1, user_text="u" * 300, response_text="short", tool_calls=[*calls, *[ToolCall("z" * 300)] * 60],
            findings=[Finding("odd", "1"), Finding("odd", "2"), Finding("even", "3")], conversation_id="c", task_id="t",
        )
    )  # fmt: skip
    await kept.finish(Scored("turn-0001", [result("failed")]))
    page = await kept.store.turns(TurnQuery(summary=True))
    whole = await kept.store.turn("turn-0001") or {}
    assert page.items == [turn_summary(whole)]
    assert page.items[0] == {
        **{
            name: whole[name] for name in ("turn_id", "run", "case_id", "conversation_id", "task_id", "state", "status")
        },
        **{name: whole[name] for name in ("started_at", "first_event_at", "ended_at")},
        "user_text": "u" * 199 + "…",
        "response_text": "short",
        "tool_calls": [
            {"name": "track", "error": False},
            {"name": "refund", "error": True},
            *[{"name": "z" * 99 + "…", "error": False}] * 48,
        ],
        "tool_call_count": 62,
        "calls": "seen",
        "findings": ["odd", "even"],
        "verdict": "failed",
    }


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_figures_count_the_newest_turns(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await some_turns(kept)
    await kept.add(turn(7, run="other", status="open", ended_at=None))
    figures = await kept.store.figures("nightly")
    assert (figures.turns, figures.counted, figures.calls, figures.failed, figures.errored) == (6, 6, 4, 1, 1)
    assert [round(seconds, 3) for seconds in figures.seconds] == [0.5] * 6
    assert (await kept.store.figures("none")).turns == 0
    assert await kept.store.run_names(5) == ["other", "nightly"]
    assert await kept.store.run_names(1) == ["other"]
    monkeypatch.setattr(reads, "MAX_COUNTED", 2)
    figures = await kept.store.figures()
    assert (figures.turns, figures.counted, figures.calls, len(figures.seconds)) == (7, 2, 0, 1)
