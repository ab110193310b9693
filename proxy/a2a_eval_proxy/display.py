"""Turns and their scores as a terminal table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table
from tool_call_evaluators.judge.question import Usage
from tool_call_evaluators.model import Status
from tool_call_evaluators.outcomes import Conversation, turn_failure

TurnJson = Mapping[str, Any]


def turn_table(turns: Sequence[TurnJson], metrics: Sequence[str]) -> Table:
    """One row a turn: case, tool calls, its scores, findings, verdict.

    The scores are those of `metrics`, then those that only some cases have; a dot where a turn has none of one."""
    scored = (result["evaluator"] for turn in turns for result in turn["evaluations"])
    shown = list(dict.fromkeys([*metrics, *scored]))
    table = Table(box=None, pad_edge=False, header_style="bold", caption=f"scores: {', '.join(shown)}")
    table.add_column("case", overflow="fold", min_width=4)
    table.add_column("tool calls", overflow="fold", min_width=20)
    table.add_column("scores", overflow="fold")
    table.add_column("find-\nings", justify="right")
    table.add_column("verdict", no_wrap=True)
    previous: tuple[str, str] | None = None
    for turn in turns:
        scores = {result["evaluator"]: _score(result) for result in turn["evaluations"]}
        absent = "[dim]·[/dim]" if scores else "[red]missing[/red]"
        conversation = (turn["case_id"], turn["conversation_id"])
        table.add_row(
            "" if conversation == previous else escape(turn["case_id"] or "no case"),
            "\n".join(_call(call) for call in turn["tool_calls"]) or "[dim]none[/dim]",
            " ".join(scores.get(name, absent) for name in shown),
            str(len(turn["findings"])),
            "[green]passed[/green]" if passed(turn) else "[red]failed[/red]",
        )
        previous = conversation
    return table


def conversation_lines(conversations: Iterable[Conversation]) -> list[str]:
    """For each conversation that was measured as a whole, or should have been, what was said of it."""
    lines = []
    for conversation in conversations:
        said = [result.to_dict() for result in conversation.results if result.status is not Status.SKIPPED]
        if said:
            scores = ", ".join(f"{result['evaluator']} {_score(result)}" for result in said)
            lines.append(f"{escape(conversation.label)} as a whole: {scores}")
    return lines


def usage_line(usage: Usage) -> str:
    """What judges cost; empty where none was asked."""
    if not usage.requests:
        return ""
    tokens = "" if usage.prompt_tokens is None else f", {usage.prompt_tokens} + {usage.completion_tokens} tokens"
    cost = f", cost {usage.cost:.4g}" if usage.cost else ""
    return f"judge: {usage.requests} requests{tokens}{cost}"


def score_text(result: Mapping[str, Any]) -> str:
    """A score for people, two places; a dash where there is none."""
    return "-" if result["score"] is None else f"{result['score']:.2f}"


def passed(turn: TurnJson) -> bool:
    """Whether the turn did not break off, and none of its results failed or errored. Without results it has not."""
    results = turn["evaluations"]
    return (
        bool(results)
        and turn_failure(turn) is None
        and not any(result["status"] in ("failed", "errored") for result in results)
    )


def _score(result: Mapping[str, Any]) -> str:
    if result["score"] is None:
        return f"[dim]{result['status']}[/dim]" if result["status"] == "skipped" else f"[red]{result['status']}[/red]"
    return score_text(result) if result["passed"] is not False else f"[red]{score_text(result)}[/red]"


def _call(call: Mapping[str, Any]) -> str:
    arguments = call["arguments"]
    if arguments is None:
        return f"{escape(call['name'])}(?)"
    values = ", ".join(_value(arguments[key]) for key in sorted(arguments))  # protobuf does not keep their order
    error = " [red]error[/red]" if call["error"] else ""
    return f"{escape(call['name'])}({escape(values)}){error}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
