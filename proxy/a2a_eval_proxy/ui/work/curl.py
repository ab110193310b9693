"""A request of the wire as a curl command: sent to the proxy, with placeholders for credentials. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tool_call_evaluators.report.wording import printable

from ...relay.wire_json import MASKED

_LEFT_OUT = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "user-agent", "traceparent"}
)
"""Headers that curl or the proxy sets."""
_CURLS_OWN = ("accept", "content-type")
"""Headers that curl adds to a request without them, unless it is given the name alone."""


def curl_command(request: Mapping[str, Any], proxy_url: str, agent: str) -> str:
    """`agent` is the URL of the agent, whose path the target begins with.

    A body that cannot be copied as text is not repeated. What a client sent is data for the shell and for curl, which
    would read a file for a body of `--data-binary` that begins with @, and expand brackets in a target.
    """
    target = request["target"].removeprefix(urlsplit(agent).path.rstrip("/"))
    words = ["curl", "-sS", "-N", "-g", "--path-as-is", "-X", request["method"], proxy_url.rstrip("/") + target]
    for name, value in request["headers"]:
        if name.lower() not in _LEFT_OUT:
            value = f"YOUR-{name.upper()}" if value == MASKED else value
            words += ["-H", f"{name}: {value}" if value else f"{name};"]  # curl removes a header without a value
    sent = {name.lower() for name, _ in request["headers"]}
    words += [word for name in _CURLS_OWN if name not in sent for word in ("-H", f"{name}:")]
    body = request["body"]
    if body["bytes"]:
        text = body.get("text")
        shown = text is not None and printable(text) == text and "\r" not in text  # a page has \n instead
        words += ["--data-raw", text] if shown and not body.get("cut") else ["--data-binary", "@request-body"]
    return shlex.join(words)
