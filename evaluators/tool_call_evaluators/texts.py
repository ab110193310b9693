"""Writes values for people, in reasons, messages and reports, and reads JSON in texts."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from a2a_tool_capture.canonical import with_whole_numbers
from a2a_tool_capture.json_limits import mapped

MAX_PROBLEMS = 3
"""Maximum number of problems in a reason; the details contain all."""


def sentence(summary: str, problems: Sequence[str]) -> str:
    """`summary`, then the first problems and the number of further ones."""
    if not problems:
        return f"{summary}."
    more = len(problems) - MAX_PROBLEMS
    first = "; ".join(problems[:MAX_PROBLEMS])
    return f"{summary}: {first}; and {more} more." if more > 0 else f"{summary}: {first}."


def counted(count: int, noun: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Sequence[str], most: int, others: str = "more") -> str:
    """`a, b and 3 more`: the first `most` of the names, and the number of the `others`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} {others}" if more > 0 else "")


def excerpt(text: str, limit: int = 60) -> str:
    """`text`, cut to `limit` characters, with an ellipsis if it is cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_within(text: str, limit: int) -> str:
    """`text`, cut in its middle to `limit` characters: names that begin alike differ at their end."""
    end = limit // 2
    return text if len(text) <= limit else f"{text[: limit - end - 1]}…{text[-end:]}"


def json_excerpt(value: Any, limit: int = 60) -> str:
    """`value` as JSON, cut to `limit` characters."""
    return excerpt(in_json(value), limit)


def in_json(value: Any) -> str:
    """`value` as JSON, whatever it holds."""
    return json.dumps(value, ensure_ascii=False, default=str)


def contrast(expected: str, actual: str, limit: int = 60) -> str:
    """`expected X, got Y`, where a reader sees a difference: texts that look alike also in ASCII, and long texts
    are cut around the first one."""
    start = 0
    if expected != actual and excerpt(expected, limit) == excerpt(actual, limit):
        pairs = enumerate(zip(expected, actual, strict=False))
        first = next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(expected), len(actual)))
        start = max(0, first - limit // 3)
    x, y = (excerpt(f"…{text[start:]}" if start else text, limit) for text in (expected, actual))
    if expected == actual or _look(expected) != _look(actual):
        return f"expected {x}, got {y}"
    return f"expected {x} ({ascii(x)[1:-1]}), got {y} ({ascii(y)[1:-1]})"


def _look(text: str) -> str:
    """What texts share that look alike: of one form, kinds of blanks, dashes, quotes and alphabets made equal."""
    if len(text) > _LONGEST_LOOK:
        return text
    found = unicodedata.normalize("NFKC", text).translate(_TWINS)
    return " ".join("".join(character for character in found if unicodedata.category(character) != "Cf").split())


_LONGEST_LOOK = 2_000  # characters; comparing longer texts by characters takes long
_TWINS = str.maketrans(
    "АВЕЅІЈКМНОРСТХУасеіјорѕхуԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρ‐‑‒–—−‘’‚“”„",
    "ABESIJKMHOPCTXYaceijopsxydqwhABEZHIKMNOPTYXovp" + 6 * "-" + 3 * "'" + 3 * '"',
)
"""Characters that look like those of ASCII: letters of Cyrillic and Greek, dashes, quotation marks."""


def json_text(value: Any) -> str | None:
    """Strings and None unchanged, any other value as JSON text: the stored form of tool results."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_json(value: Any) -> Any:
    """The JSON value of a string, or the string itself if it is not JSON; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


MISSING_CHARACTER = "\N{REPLACEMENT CHARACTER}"

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


_DIRECTING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Bidirectional controls (Unicode Annex 9): they change the displayed order of the following text."""


def printable(text: str) -> str:
    """`text` without characters that XML or UTF-8 files cannot contain: control characters, halves of surrogate pairs.

    Characters that change the displayed order of others are escaped as `\\u202e`, which is valid in JSON too.
    """
    return _DIRECTING.sub(_escaped, _UNWRITABLE.sub(MISSING_CHARACTER, text))


def without_directions(text: str) -> str:
    """JSON text whose strings have bidirectional controls escaped twice, for readers that unescape JSON."""
    return _DIRECTING.sub(lambda character: "\\" + _escaped(character), text)


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character.group()):04x}"


def escaped(text: str, limit: int = 300) -> str:
    """`text` as one line, cut to `limit` characters, that Markdown shows as it is."""
    plain = one_line(printable(text), limit)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]()#+!|~$-])", r"\\\1", plain)
    return re.sub(r":(?=//)|(?<=www)\.", r"\\\g<0>", plain, flags=re.IGNORECASE)  # GitHub links bare addresses


def one_line(text: str, limit: int) -> str:
    """`text` with each run of white space as one space, cut."""
    return excerpt(" ".join(text[: 4 * limit].split()), limit)


def moment_text(time: str | None) -> str:
    """`2026-11-22 09:00:00` of an RFC 3339 time; a dash for None."""
    return "–" if time is None else time[:19].replace("T", " ")


def state_text(state: str | None) -> str:
    """`input required` of a task's state; "" for None."""
    return (state or "").removeprefix("TASK_STATE_").lower().replace("_", " ")


def score_text(score: float | None, scale: Sequence[float] | None = None) -> str:
    """Two decimals, and the `scale` unless that is 0 to 1, as in `2.00 (1 to 5)`; a dash for None."""
    low, high = scale or (0, 1)
    return "–" if score is None else f"{score:.2f}" + (f" ({low:g} to {high:g})" if (low, high) != (0, 1) else "")


def call_text(call: Mapping[str, Any], limit: int = 200) -> str:
    """`refund(order_id="A-1", amount=3)`; `refund(?)` if the arguments are unknown."""
    arguments = call.get("arguments")
    if arguments is None:
        return f"{call['name']}(?)"
    inner = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(arguments.items()))
    return excerpt(f"{call['name']}({inner})", limit)


def duration_text(seconds: float | None) -> str:
    """`840 ms`, `2.4 s`, `3 min 20 s`; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


EXPECTATION_WORDS = {
    "tool_calls": "tool calls",
    "tool_calls_order": "order of tools",
    "tool_calls_count": "number of calls",
    "tool_outputs": "tool outputs",
    "response": "response",
    "response_contains": "response contains",
    "behavior": "behaviour",
    "forbidden_calls": "forbidden calls",
    "skills": "skills",
    "forbidden_skills": "forbidden skills",
    "agents": "agents asked",
    "approval": "waits for approval",
    "state": "state at the end",
    "state_of_world": "state of the world",
}
"""Names of expectations for people, by their keys in suites."""


def gate_name(check: Mapping[str, Any]) -> str:
    """`tool_error: mean ≥ 0.90`, for a gate as in `Verdict.to_dict`; without a metric for a gate on the run."""
    return f"{check['metric']}: {check['label']}" if check["metric"] else str(check["label"])


def gate_word(check: Mapping[str, Any]) -> str:
    return {True: "met", False: "not met", None: "tolerated by the suite"}[check["passed"]]


def gate_sign(check: Mapping[str, Any]) -> str:
    return {True: "✓", False: "✕", None: "–"}[check["passed"]]


def tokens_text(usage: Mapping[str, Any]) -> str:
    """`1,200 + 340`: input and output tokens of the agent's models; a dash for an unknown number."""
    return " + ".join(
        "–" if usage.get(name) is None else f"{usage[name]:,}" for name in ("input_tokens", "output_tokens")
    )


def source_text(usage: Mapping[str, Any]) -> str:
    """` (kagent_usage_total)`: where the tokens were read; empty if it is not stated."""
    part = "at least, " if usage.get("at_least") else ""
    return f" ({part}{usage['source']})" if usage.get("source") else ""


def cost_text(usage: Mapping[str, Any]) -> str:
    """`, cost 0.0031`; empty if it is unknown."""
    return f", cost {usage['cost']:.4g}" if usage.get("cost") else ""


def report_json(value: Any, indent: int = 2) -> str:
    """JSON text of `printable` characters and `finite` numbers."""
    return printable(json.dumps(finite(value), indent=indent, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """JSON data with NaN and infinity, which JSON cannot represent, as strings."""
    return mapped(value, lambda leaf: str(leaf) if isinstance(leaf, float) and not math.isfinite(leaf) else leaf)


_ROUNDED = re.compile(r"\d{16}|\d[eE]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def pretty_json(value: Any) -> str:
    """JSON on several lines, from data or from text. Any other text, and numbers that would be rounded, as they are."""
    try:
        if isinstance(value, str):
            if _ROUNDED.search(_STRING.sub("", value)):
                return value
            value = with_whole_numbers(json.loads(value))
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return str(value)
