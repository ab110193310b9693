"""Which words of the request headers are credentials. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

LEAST_LENGTH = 6
"""Shorter words of a header are no credentials, and everywhere."""


def credentials_in(header_values: Iterable[str]) -> frozenset[str]:
    """What is not to be shown of headers: each value, and its words, but for a token's scheme; as in JSON, too."""
    texts = {text for value in header_values for text in (value, *value.split())}
    long = {text for text in texts if len(text) >= LEAST_LENGTH and text.lower() not in ("bearer", "digest")}
    return frozenset(long | {json.dumps(text)[1:-1] for text in long})
