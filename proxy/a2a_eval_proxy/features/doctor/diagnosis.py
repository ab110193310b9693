"""The sentences of `doctor`: what one message shows of an agent's tool calls, and what would show more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_tool_capture.dialect import known_dialects
from tool_call_evaluators.texts import call_text, counted, printable
from tool_call_evaluators.visibility import Calls, visibility_in

from .frameworks import A2A_SDK, CAN_BE_NAMED, FRAMEWORKS, PAGES, Framework, recognised


def diagnose(
    url: str,
    card: Any,
    message: str,
    turn: dict[str, Any],
    scopes: Sequence[str],
    traces: str,
    framework: Framework | None = None,
    again: str = "",
) -> tuple[list[str], bool]:
    """What to say to the user, as lines, and whether calls were made and all are known with arguments and results.

    `message` led to `turn`, as JSON, with spans of these `scopes`; `traces` are the variables with which the agent
    sends them. `framework` is what the user names; None: the one that is recognised. `again` are the options of the
    command that the user repeats.
    """
    seen, calls = visibility_in(turn), turn["tool_calls"]
    bare = [call["name"] for call in calls if call["arguments"] is None or call["result"] == call["error"]]
    marks = [
        one.mark for one in FRAMEWORKS if one.mark and any(one.mark in item["message"] for item in turn["findings"])
    ]
    lines = [f"sent {message!r}: {counted(len(calls), 'tool call')}", *(f"  {call_text(call)}" for call in calls)]
    lines += _ways(turn, scopes)
    found = (framework, "") if framework else recognised(card, scopes, marks)
    if found:
        lines.append(f"framework  {found[0].name}" + (f", by {found[1]}" if found[1] else ""))
    elif seen.calls is not Calls.SEEN or bare:
        names = ", ".join(one.page for one in CAN_BE_NAMED)
        lines.append(f"framework  not recognised: name it with --framework ({names}), or see {PAGES}/README.md")
    if seen.calls is Calls.NONE_MADE:
        lines += ["", "the agent made no tool call; send a message that needs one: --message TEXT"]
    elif seen.calls is Calls.UNKNOWN:
        lines += ["", f"tool calls are not all seen: {seen.message}"]
    elif bare:
        lines += ["", f"arguments or results are not seen: {', '.join(bare)}; content is left out"]
    else:
        return [printable(line) for line in [*lines, "", "all seen"]], True
    framework = found[0] if found else A2A_SDK
    if seen.calls is Calls.UNKNOWN:
        lines += _next(framework, traces)
    elif seen.calls is Calls.SEEN:
        lines += _content(framework, traces)
    lines += ["", f"then again: a2a-eval-proxy doctor {url}{again}"]
    return [printable(line) for line in lines], False


def _ways(turn: dict[str, Any], scopes: Sequence[str]) -> list[str]:
    """A line for each way by which calls can be seen."""
    capture, sources = turn["capture"], turn["capture"]["sources"]
    both = capture["matched_by_id"] + capture["matched_by_signature"]
    by_traces = both + capture["trace_only"]
    dialects = [source for source in known_dialects() if sources.get(source)]
    by_extension = both + capture["protocol_only"] - sum(sources[one] for one in dialects)
    declared = "declared on the agent card" if capture["declared"] else "not declared on the agent card"
    spans = f"{counted(len(scopes), 'span')} of {', '.join(sorted(set(scopes)))}" if scopes else "none received"
    lines = [
        f"extension  {declared}: {counted(by_extension, 'call')}",
        f"traces     {spans}: {counted(by_traces, 'call')}",
    ]
    return [*lines, *(f"dialect    {one}: {counted(sources[one], 'call')}" for one in dialects)]


def _content(framework: Framework, traces: str) -> list[str]:
    """What shows arguments and results of calls whose names are seen."""
    lines = ["", f"what shows them, under Traps in {PAGES}/{framework.page}.md:"]
    lines += [f"    {line}" for line in framework.content]
    return [*lines, f"    {_traced(framework, traces)}"] if framework.variables else lines


def _traced(framework: Framework, traces: str) -> str:
    """The command that starts the agent with traces."""
    return " ".join(filter(None, [traces, framework.variables, framework.start]))


def _next(framework: Framework, traces: str) -> list[str]:
    """The lines that show the calls."""
    lines = ["", f"what shows them, line by line in {PAGES}/{framework.page}.md:"]
    if framework.dialects:
        lines += ["", f"without a line, from its messages: --dialects {framework.dialects} (run, serve, doctor)"]
    if framework.extension:
        lines += ["", f"in the agent, by the extension: {framework.install}"]
        lines += [f"    {line}" for line in framework.extension]
        lines += [f"    ({framework.remark})"] if framework.remark else []
    if framework is A2A_SDK:
        lines += ["", f"traces, and agents in other languages: the page of your framework, in {PAGES}/README.md"]
    elif framework.extension:
        packages = " ".join(filter(None, [framework.trace_packages, framework.instrumentation]))
        lines += ["", f"or by traces: {packages}"]
        lines += [f"    {line}" for line in framework.code]
        lines += [f"    {_traced(framework, traces)}"]
    return lines
