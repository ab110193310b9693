"""Finds the credentials in request headers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

LEAST_LENGTH = 6
"""Minimum length of a credential; shorter words also occur in ordinary text."""


def credentials_in(header_values: Iterable[str]) -> frozenset[str]:
    """Returns the strings to mask: each value and each of its words except the scheme, also in their JSON escape."""
    texts = {text for value in header_values for text in (value, *value.split())}
    long = {text for text in texts if len(text) >= LEAST_LENGTH and text.lower() not in ("bearer", "digest")}
    return frozenset(long | {json.dumps(text)[1:-1] for text in long})
