"""Trees from a store: what is found by index, what becomes known later, how large a tree gets, and how it is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.features.graph.trees import MOST_SHOWN, MOST_TURNS, StoredTrees, family_of
from a2a_eval_proxy.privacy.policy import privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.store import SqliteStore, Store, open_store
from a2a_eval_proxy.store.encoding import encoded_turn
from a2a_eval_proxy.turn import STARTS_TRACE, NamedIn, Turn, TurnLinks
from a2a_tool_capture import ToolCall
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied
from tool_call_evaluators.agent_tree import totals, walk
from tool_call_evaluators.report.tree import tree_text

TRACE = "1" * 32
ASK = ToolCall("refund", {"order": 4711})


def asked(number: int, parent: int | None, **fields: Any) -> Turn:
    """A turn that another one asked for, within its time, in its trace; the first one began the trace."""
    links = STARTS_TRACE if parent is None else TurnLinks(f"{number:016x}", f"turn-{parent:04}")
    times = {"started_at": 1_763_700_000.0 + number / 100, "ended_at": 1_763_700_100.0 - number / 100}
    of_task = {"conversation_id": f"c{number}", "task_id": f"t{number}", "state": "TASK_STATE_COMPLETED"}
    own = {"agent": f"http://agent-{number}", "trace_id": TRACE, "links": links, "user_text": f"question {number}"}
    return turn(number, **{**times, **of_task, **own, **fields})


@pytest.fixture(params=["sqlite", "postgres"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    store: Store
    if request.param == "sqlite":
        store = SqliteStore(str(tmp_path / "turns.db"))
    else:
        store = await asyncio.to_thread(open_store, request.getfixturevalue("postgres").new_store())
    yield Kept(store)
    await asyncio.to_thread(store.close)


async def drawn(store: Store, number: int) -> list[tuple[int, str]]:
    """Depth and turn of a tree, from its root on."""
    tree = await StoredTrees(store).around(f"turn-{number:04}")
    assert tree is not None
    return [(placed.depth, placed.turn.turn_id) for placed in walk(tree)]


async def test_from_whichever_turn_the_tree_is_the_same(kept: Kept) -> None:
    await kept.add(*(asked(number, parent) for number, parent in ((3, 1), (2, 0), (1, 0), (0, None))))
    await kept.add(asked(7, None, trace_id="2" * 32))
    for number in range(4):
        found = [(depth, int(turn_id[-4:])) for depth, turn_id in await drawn(kept.store, number)]
        assert found == [(0, 0), (1, 1), (2, 3), (1, 2)]
    assert await StoredTrees(kept.store).around("turn-0099") is None


async def test_the_turn_that_began_a_trace_is_found_by_the_trace(kept: Kept) -> None:
    first, second = (asked(number, parent, trace_id="turn-0000") for number, parent in ((0, None), (1, 0)))
    assert encoded_turn(first).columns["trace_id"] == "", "needs no entry in the index of traces"
    await kept.add(first, second)
    found = await kept.store.linked_by("trace_id", "turn-0000", 1, 10)
    assert [one.turn["turn_id"] for one in found] == ["turn-0000", "turn-0001"]


async def test_a_parent_that_is_stored_later_is_found(kept: Kept) -> None:
    await kept.add(asked(1, 0), asked(2, 1))
    assert await drawn(kept.store, 2) == [(0, "turn-0001"), (1, "turn-0002")]
    await kept.add(asked(0, None))
    assert await drawn(kept.store, 2) == [(0, "turn-0000"), (1, "turn-0001"), (2, "turn-0002")]


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (1, (NamedIn.PARENT_TASK, "t0")),
        (1, (NamedIn.PARENT_CONVERSATION, "c0")),
        (0, (NamedIn.CHILD_TASK, "t1")),
        (0, (NamedIn.CHILD_CONVERSATION, "c1")),
    ],
)
async def test_ids_are_followed_in_both_directions(kept: Kept, of: int, name: tuple[NamedIn, str]) -> None:
    turns = [asked(number, None, trace_id=f"{number + 1:032x}") for number in range(2)]
    turns[of].links = TurnLinks(names=(name,))
    await kept.add(*reversed(turns))
    for number in range(2):
        assert await drawn(kept.store, number) == [(0, "turn-0000"), (1, "turn-0001")]


async def test_spans_that_come_later_make_a_guess_certain(kept: Kept) -> None:
    """The client sent the trace context, and the agent passes on no `tracestate`."""
    first = asked(0, None, links=TurnLinks("a" * 16), parent_span_id="a" * 16)
    second = asked(1, None, links=TurnLinks("c" * 16), parent_span_id="c" * 16)
    await kept.add(second, first)
    (guess,) = (await family_of(kept.store, "turn-0000")).edges.values()  # type: ignore[union-attr]
    assert not guess.asked.certain
    span = {"name": "x", "started_at": "2026-11-21T09:00:00Z", "ended_at": "2026-11-21T09:00:01Z", "failed": False}
    spans = [
        {**span, "span_id": "b" * 16, "parent_span_id": "a" * 16, "enters": True},
        {**span, "span_id": "c" * 16, "parent_span_id": "b" * 16},
    ]
    settled = asyncio.Event()
    loop = asyncio.get_running_loop()
    kept.store.add([replace(first, spans=spans)], lambda: loop.call_soon_threadsafe(settled.set), again=True)
    await asyncio.wait_for(settled.wait(), PATIENCE_S)
    (edge,) = (await family_of(kept.store, "turn-0000")).edges.values()  # type: ignore[union-attr]
    assert (edge.parent, edge.asked.certain) == ("turn-0000", True)


async def test_one_trace_of_thousands_of_turns(kept: Kept) -> None:
    """A client that sends the same trace context always: those that are near are read."""
    many = [asked(number, 0) for number in range(1, 700)]
    await kept.add(*many, asked(0, None))
    family = await family_of(kept.store, "turn-0350")
    assert family is not None
    assert 400 <= len(family.turns) <= MOST_TURNS
    assert "turn-0000" in family.turns
    tree = family.tree_below("turn-0000")
    assert (totals(tree)["turns"], totals(tree)["left_out"]) == (MOST_SHOWN, len(family.turns) - MOST_SHOWN)
    assert tree.is_cut, "it may have turns that were not read"
    assert "maybe others that were not read" in tree_text(tree)


async def test_of_a_large_tree_the_way_to_the_turn_is_shown_and_what_is_left_out_is_counted(kept: Kept) -> None:
    chain = [asked(number, number - 1 if number else None) for number in range(60)]
    await kept.add(*chain, *(asked(100 + number, 0) for number in range(250)))
    tree = await StoredTrees(kept.store).around("turn-0020")
    assert tree is not None
    numbers = totals(tree)
    assert (numbers["turns"] + numbers["left_out"], numbers["is_cut"]) == (310, False)
    assert [placed.turn.turn_id for placed in walk(tree) if placed.depth == 20] == ["turn-0020"]


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Proxied]:
    """A proxy whose store has a turn that asked two agents, one of which failed."""
    async with proxied(tmp_path) as shop:
        kept, usage = Kept(shop.proxy.control.store), {"input_tokens": 100, "output_tokens": 20, "cost": 0.25}
        failed = asked(2, 0, state="TASK_STATE_FAILED", links=TurnLinks("2" * 16), user_text="<b>refund</b>")
        orders = asked(1, 0, tool_calls=[ASK], usage=usage)
        await kept.add(failed, orders, asked(0, None, usage=usage, shown_by="extension"))
        yield shop


async def test_the_answers_of_the_api(shop: Proxied) -> None:
    """`proxied` holds each against the OpenAPI document."""
    turn = await shop.get("/api/turns/turn-0000")
    assert "parent" not in turn
    assert [one["turn_id"] for one in turn["children"]] == ["turn-0001", "turn-0002"]
    assert turn["children"][0] == {
        "turn_id": "turn-0001", "agent": "http://agent-1", "state": "TASK_STATE_COMPLETED", "status": "pending",
        "evidence": "trace_context", "certain": True, "reason": "the request carried the id of that turn",
    }  # fmt: skip
    assert (await shop.get("/api/turns/turn-0001"))["parent"]["turn_id"] == "turn-0000"
    tree = await shop.get("/api/turns/turn-0002/tree")
    assert (tree["turn_id"], tree["root"]["turn_id"], tree["first_failed"]) == ("turn-0002", "turn-0000", "turn-0002")
    assert [child["asked"]["certain"] for child in tree["root"]["children"]] == [True, False]
    numbers = {"turns": 3, "agents": 3, "edges": 2, "guesses": 1, "failed": 1, "tool_calls": 1, "input_tokens": 200}
    assert {name: tree["totals"][name] for name in numbers} == numbers
    assert tree["totals"]["cost"] == 0.5
    assert tree["totals"]["partly_known"] == ["input_tokens", "output_tokens", "cost"]
    assert (await shop.admin.get("/api/turns/nothing/tree")).status_code == 404


async def test_a_turn_of_which_nothing_is_known_is_as_before(shop: Proxied) -> None:
    await Kept(shop.proxy.control.store).add(asked(5, None, trace_id="5" * 32))
    assert not {"parent", "children", "links"} & set(await shop.get("/api/turns/turn-0005"))
    assert "Who asked whom" not in (await shop.admin.get("/turns/turn-0005")).text


async def test_the_page_draws_it_without_script(shop: Proxied) -> None:
    page = (await shop.admin.get("/turns/turn-0001")).text
    drawing = page[page.index("Who asked whom") :].partition("</section>")[0]
    told = "3 turns of 3 agents, 1 tool call, at least 200 + 40 tokens, cost 0.5, 1 failed, 1 edge guessed"
    for part in (told, "first failed edge", 'turn-0000"', "&lt;b&gt;refund"):
        assert part in drawing
    assert drawing.count('class="guess') == 1


# ── privacy ─────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "ann@example.com"


async def test_ids_that_are_hashed_still_match(kept: Kept) -> None:
    """What a message names is redacted as the id itself is."""
    privacy = privacy_of(parse_rules("email"), "key")
    parent = asked(0, None, trace_id="", task_id=f"task of {SECRET}")
    child = asked(1, None, trace_id="", links=TurnLinks(names=((NamedIn.PARENT_TASK, f"task of {SECRET}"),)))
    await kept.add(*map(privacy.redacted, (child, parent)))
    family = await family_of(kept.store, "turn-0001")
    assert family is not None
    assert family.edges["turn-0001"].asked.certain
    assert SECRET not in str(family)


async def test_a_turn_without_content_says_so(kept: Kept) -> None:
    privacy = privacy_of((), None, no_content=True)
    await kept.add(privacy.stored(asked(0, None)))
    assert not (await StoredTrees(kept.store).around("turn-0000")).has_content  # type: ignore[union-attr]
