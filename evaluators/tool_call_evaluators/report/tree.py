"""The tree of who asked whom, for pages, reports and terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..agent_tree import AgentTurn, PlacedTurn, certain_part, first_failed_edge, totals, walk
from ..texts import cost_text, counted, duration_text, one_line, state_text, tokens_text
from ..visibility import Calls

_MAX_NAME, _MAX_TEXT, _MAX_TOOLS = 80, 160, 6

FIRST_FAILED = "first failed edge"


def shown_tree(
    tree: AgentTurn, here: str = "", link: Callable[[str], str | None] = lambda turn_id: None
) -> dict[str, Any]:
    """What `agent_tree.html` shows of a tree, and `calls_below`, the number of calls of agents that were asked in the
    turn `here`, whose page it is on. `link`: the address of a turn."""
    first = first_failed_edge(tree)
    below = [certain_part(placed.turn) for placed in walk(tree) if placed.turn.turn_id == here]
    return {
        "root": _shown(tree, here, link, first),
        "summary": summary(totals(tree)),
        "calls_below": sum(len(placed.turn.tool_calls) for placed in walk(*below) if placed.parent is not None),
    }


def _shown(turn: AgentTurn, here: str, link: Callable[[str], str | None], first: PlacedTurn | None) -> dict[str, Any]:
    return {
        "agent": one_line(turn.agent, _MAX_NAME),
        "url": None if turn.turn_id == here else link(turn.turn_id),
        "is_here": turn.turn_id == here,
        "state": outcome(turn),
        "failed": bool(turn.failure),
        "first_failed": first is not None and turn.turn_id == first.turn.turn_id,
        "facts": facts(turn),
        "text": one_line(turn.user_text, _MAX_TEXT),
        "certain": turn.asked is None or turn.asked.certain,
        "reason": turn.asked.reason if turn.asked is not None else "",
        "children": [_shown(child, here, link, first) for child in turn.children],
        "left_out": turn.left_out,
    }


def outcome(turn: AgentTurn) -> str:
    """How it ended, in a word or two."""
    if turn.status == "open":
        return "open"
    state = state_text(turn.state)
    if not turn.failure:
        return state or "answered"
    return state if turn.failure.startswith("task_") and state else turn.failure


def facts(turn: AgentTurn) -> str:
    """Time, calls, tokens and cost."""
    tools = [one_line(call.name, _MAX_NAME) for call in turn.tool_calls]
    more = f" and {len(tools) - _MAX_TOOLS} more" if len(tools) > _MAX_TOOLS else ""
    calls = f"calls {', '.join(tools[:_MAX_TOOLS])}{more}" if tools else ""
    if not tools:
        calls = "calls unknown" if turn.visibility.calls is Calls.UNKNOWN else "no calls"
    at_least = "at least " if turn.usage.get("at_least") else ""
    tokens = f"{at_least}{tokens_text(turn.usage)} tokens{cost_text(turn.usage)}" if turn.usage else ""
    return ", ".join(filter(None, (duration_text(turn.seconds) if turn.seconds is not None else "", calls, tokens)))


def summary(numbers: Mapping[str, Any]) -> str:
    """The `totals` of a tree in a sentence."""
    sums = ("input_tokens", "output_tokens", "cost")
    known = {name: numbers[name] for name in sums if numbers[name] is not None}
    at_least = "at least " if numbers["partly_known"] else ""
    parts = [
        f"{counted(numbers['turns'], 'turn')} of {counted(numbers['agents'], 'agent')}",
        counted(numbers["tool_calls"], "tool call"),
        f"{at_least}{tokens_text(known)} tokens{cost_text(known)}" if known else "",
        f"{numbers['failed']} failed" if numbers["failed"] else "",
        f"{counted(numbers['guesses'], 'edge')} guessed" if numbers["guesses"] else "",
        f"{numbers['left_out']} more left out" if numbers["left_out"] else "",
        "maybe others that were not read" if numbers["is_cut"] else "",
    ]
    return ", ".join(filter(None, parts))


def tree_lines(tree: AgentTurn, here: str = "") -> Iterator[str]:
    """The tree as text: one turn a line, indented below the one that asked for it."""
    first = first_failed_edge(tree)
    yield f"who asked whom: {summary(totals(tree))}"
    for turn, _, depth in walk(tree):
        guess = "" if turn.asked is None or turn.asked.certain else f"   (a guess: {turn.asked.reason})"
        mark = f"   <- {FIRST_FAILED}" if first is not None and turn.turn_id == first.turn.turn_id else ""
        this = "*" if turn.turn_id == here else "-"
        said = f"{one_line(turn.agent, _MAX_NAME)}: {outcome(turn)}, {facts(turn)}"
        yield f"{'  ' * depth}{this} {said}{mark}{guess}   {turn.turn_id}"
        if turn.left_out:
            yield f"{'  ' * (depth + 1)}… and {counted(turn.left_out, 'more turn')}"
