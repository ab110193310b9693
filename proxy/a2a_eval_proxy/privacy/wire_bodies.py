"""What may be shown of the bodies and events of the wire log: the rules of stored turns, and no credentials. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..protocol.sse import event_data, with_data
from .policy import Privacy
from .redactor import Redactor, detector_rule

_CREDENTIALS = Redactor([detector_rule("token")], b"")
_FILES = frozenset({"raw", "bytes"})
"""Members with the content of a file (A2A 1.0 and 0.3): no rule can look into it, and turns do not have it."""
_PIECES = _FILES | {"text"}  # in an event, a text may be a piece: what a rule would find may continue in the next event


def shown_body(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """A body of `relay.wire_json` as it may be shown.

    With rules, a body that is cut or binary has no content (`withheld` says why), nor has a file in it.
    """
    if not privacy.changes_turns:
        return {**content, "text": _CREDENTIALS.text(content["text"])} if "text" in content else dict(content)
    if "text" not in content or content.get("cut"):
        return _withheld(content, "rules cannot be applied to bytes, or to part of a body")
    return {**content, "text": privacy.text(_CREDENTIALS.text(_without(content["text"], _FILES)))}


def shown_event(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """An event of `relay.wire_json` as it may be shown. With rules, the members named `text` have no content."""
    if "text" not in content:
        return _withheld(content, "rules cannot be applied to bytes") if privacy.changes_turns else dict(content)
    raw = content["text"].encode()
    data = event_data(raw).decode()
    text = data or content["text"]  # a comment, or the message of another protocol
    if privacy.changes_turns:
        text = _without(text, _PIECES)
    shown = privacy.text(_CREDENTIALS.text(text))
    return {**content, "text": with_data(raw, shown.encode()).decode() if data else shown}


def _withheld(content: Mapping[str, Any], why: str) -> dict[str, Any]:
    return {**{name: value for name, value in content.items() if name not in ("text", "base64")}, "withheld": why}


def _without(text: str, names: frozenset[str]) -> str:
    """JSON text whose strings under these names are replaced by their length; "" for text that is not JSON."""

    def emptied(member: dict[str, Any]) -> dict[str, Any]:
        texts = ((name, member.get(name)) for name in names)
        return member | {name: f"[not shown: {len(text)} characters]" for name, text in texts if isinstance(text, str)}

    try:
        return json.dumps(json.loads(text, object_hook=emptied), ensure_ascii=False) if text else ""
    except (ValueError, RecursionError):
        return f"[not shown: {len(text)} characters that are not JSON]"
