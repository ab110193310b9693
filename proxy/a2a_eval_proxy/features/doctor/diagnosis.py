"""What `doctor` says: what one message shows of an agent's tool calls, and what would show more (`diagnosis.txt`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_tool_capture.dialect import known_dialects
from jinja2 import PackageLoader
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.texts import printable
from tool_call_evaluators.visibility import Calls, visibility_in

from .frameworks import A2A_SDK, CAN_BE_NAMED, FRAMEWORKS, PAGES, Framework, recognised

_TEMPLATES = PackageLoader(__package__, "")


def diagnose(
    url: str,
    card: Any,
    message: str,
    turn: dict[str, Any],
    scopes: Sequence[str],
    traces: str,
    framework: Framework | None = None,
    again: str = "",
    server: str = "",
) -> tuple[str, bool]:
    """What to say to the user, and whether calls were made and all are known with arguments and results.

    `message` led to `turn`, as JSON, with spans of these `scopes`; `traces` are the variables with which the agent
    sends them. `framework` is what the user names; None: the one that is recognised, at last
    by what responses say of the `server`. `again` are the options of the
    command that the user repeats.
    """
    seen, calls, sources = visibility_in(turn), turn["tool_calls"], turn["capture"]["sources"]
    bare = [call["name"] for call in calls if call["arguments"] is None or call["result"] == call["error"]]
    all_seen = seen.calls is Calls.SEEN and not bare
    marks = [
        one.mark for one in FRAMEWORKS if one.mark and any(one.mark in item["message"] for item in turn["findings"])
    ]
    found = (framework, "") if framework else recognised(card, scopes, marks, server)
    return printable(
        plain_text(
            "diagnosis.txt",
            _TEMPLATES,
            url=url,
            message=repr(message),
            calls=calls,
            capture=turn["capture"],
            dialects={source: sources[source] for source in known_dialects() if sources.get(source)},
            scopes=scopes,
            recognised=found is not None,
            framework=found[0] if found else A2A_SDK,
            by=found[1] if found else "",
            names=[one.key for one in CAN_BE_NAMED],
            pages=PAGES,
            seen=seen.calls.value,
            why=seen.message,
            bare=bare,
            all_seen=all_seen,
            traces=traces,
            again=again,
        )
    ), all_seen
