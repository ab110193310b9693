"""Turns by their content, newest first, in short: the same tests for SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.store import Scored, SqliteStore, TurnQuery, reads
from a2a_eval_proxy.store.encoding import encoded_turn, stored_text
from a2a_eval_proxy.store.reads import turn_summary
from a2a_eval_proxy.store.turn_filter import VERDICTS, TurnFilter, turn_verdict
from a2a_tool_capture import Finding, ToolCall
from hypothesis import given
from hypothesis import strategies as st
from support.kept import Kept, result, turn
from support.patience import PATIENCE_S

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
