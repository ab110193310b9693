"""What `doctor` says: what one message shows of an agent's tool calls, and what would show more (`diagnosis.txt`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a_tool_capture.dialect import known_dialects
from jinja2 import PackageLoader
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.texts import printable
from tool_call_evaluators.visibility import Calls, visibility_in

from ...cli.traces import variables
from .frameworks import A2A_SDK, CAN_BE_NAMED, FRAMEWORKS, Framework, recognised, source_of_extension

_TEMPLATES = PackageLoader(__package__, "")


def diagnose(
    url: str,
    card: Any,
    message: str,
    turn: dict[str, Any],
    scopes: Sequence[str],
    otlp: str,
    framework: Framework | None = None,
    again: str = "",
    server: str = "",
    deaf: str = "",
) -> tuple[str, bool]:
    """What to say to the user, and whether calls were made and all are known with arguments and results, also where
    conversations are concurrent.

    `message` led to `turn`, as JSON, with spans of these `scopes`; the agent sends them to the address `otlp`.
    `framework` is what the user names; None: the one that is recognised, at last by what responses say of the `server`.
    `again` are the options of the command that the user repeats. `deaf`: why no traces are received.
    """
    seen, calls, sources = visibility_in(turn), turn["tool_calls"], turn["capture"]["sources"]
    bare = [call["name"] for call in calls if call["arguments"] is None or call["result"] == call["error"]]
    found_by_time = turn["capture"]["trace_only"] and any(
        item["code"] == "correlated_by_time" for item in turn["findings"]
    )
    all_seen = seen.calls is Calls.SEEN and not bare and not found_by_time
    marks = [
        one.mark for one in FRAMEWORKS if one.mark and any(one.mark in item["message"] for item in turn["findings"])
    ]
    found = (framework, "") if framework else recognised(card, scopes, marks, server)
    shown = found[0] if found else A2A_SDK
    source = source_of_extension()
    checkout = source if source and source.is_dir() else "extension"
    install = shown.install.replace("./extension[", f"{source or 'a2a-tool-capture'}[")
    pages = f"{checkout}/docs/frameworks"
    page, _, section = shown.page.partition("#")
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
            framework=shown,
            install=install.replace("./extension/", f"{checkout}/"),
            by=found[1] if found else "",
            names=[one.key for one in CAN_BE_NAMED],
            pages=pages,
            page=f"{pages}/{page}" + (f", section {section}" if section else ""),
            seen=seen.calls.value,
            why=seen.message,
            bare=bare,
            found_by_time=found_by_time,
            all_seen=all_seen,
            traces=variables(f"http://{otlp}"),
            otlp=otlp,
            deaf=deaf,
            again=again,
        )
    ), all_seen
