"""A request of the wire as a curl command: sent to the proxy, with placeholders for credentials. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ...relay.wire_json import MASKED

_LEFT_OUT = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "user-agent", "traceparent"}
)
"""Headers that curl or the proxy sets."""


def curl_command(request: Mapping[str, Any], proxy_url: str, agent: str) -> str:
    """`agent` is the URL of the agent, whose path the target begins with. A body that is not text is not repeated."""
    target = request["target"].removeprefix(urlsplit(agent).path.rstrip("/"))
    words = ["curl", "-sS", "-N", "-X", request["method"], proxy_url.rstrip("/") + target]
    for name, value in request["headers"]:
        if name.lower() not in _LEFT_OUT:
            words += ["-H", f"{name}: {f'YOUR-{name.upper()}' if value == MASKED else value}"]
    body = request["body"]
    if body["bytes"]:
        words += ["--data-binary", body["text"] if "text" in body and not body.get("cut") else "@request-body"]
    return shlex.join(words)
