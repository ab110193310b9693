"""The tree of who asked whom, for pages, reports and terminals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..agent_tree import AgentTurn, certain_part, first_failed_edge, totals, walk
from .templating import plain_text


def shown_tree(
    tree: AgentTurn, here: str = "", link: Callable[[str], str | None] = lambda turn_id: None
) -> dict[str, Any]:
    """What `agent_tree.html` shows of a tree, and `calls_below`, the number of calls of agents that were asked in the
    turn `here`, whose page it is on. `link`: the address of a turn."""
    first = first_failed_edge(tree)
    below = [certain_part(placed.turn) for placed in walk(tree) if placed.turn.turn_id == here]
    return {
        "root": tree,
        "here": here,
        "link": link,
        "first_failed": first and first.turn.turn_id,
        "numbers": totals(tree),
        "calls_below": sum(len(placed.turn.tool_calls) for placed in walk(*below) if placed.parent is not None),
    }


def tree_text(tree: AgentTurn, here: str = "") -> str:
    """The tree as text: one turn a line, indented below the one that asked for it."""
    return plain_text("agent_tree.txt", tree=shown_tree(tree, here), placed=walk(tree))
