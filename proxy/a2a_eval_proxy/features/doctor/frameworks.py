"""The frameworks that are recognised, and the lines of their pages (extension/docs/frameworks): `frameworks.toml`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

Framework: TypeAlias = SimpleNamespace
"""What `frameworks.toml` says of one, by the names that its head explains."""

_data = tomllib.loads(files(__package__).joinpath("frameworks.toml").read_text("utf-8"))
CAN_BE_NAMED = [Framework(**_data["defaults"] | own) for own in _data["frameworks"]]
A2A_SDK, *FRAMEWORKS = CAN_BE_NAMED
"""That of Python agents of any framework that is not recognised; and the others, in the order in which they are tried.
"""


def source_of_extension() -> Path | None:
    """The folder or file from which the extension was installed; None where it is gone, or was a package index."""
    url = urlsplit(json.loads(distribution("a2a-tool-capture").read_text("direct_url.json") or "{}").get("url", ""))
    path = Path(url2pathname(url.path))
    return path if url.scheme == "file" and path.exists() else None


def recognised(
    card: Any, scopes: Sequence[str], marks: Iterable[str], server: str = ""
) -> tuple[Framework, str] | None:
    """The framework of an agent, and by what it is recognised; None if by nothing.

    `scopes` are those of its spans, `marks` the keys that mark tool calls in its messages, `server` is what its
    responses say of the server. Spans are better evidence than the card, which may have any words; a server is that of
    a language at best.
    """
    for framework in FRAMEWORKS:
        if framework.mark and framework.mark in marks:
            return framework, f"its messages ({framework.mark})"
    for framework in FRAMEWORKS:
        for seen in scopes:
            if framework.scopes and re.search(framework.scopes, seen, re.IGNORECASE):
                return framework, f"its traces ({seen})"
    words = json.dumps(card, ensure_ascii=False)
    for framework in FRAMEWORKS:
        if framework.card and (found := re.search(framework.card, words, re.IGNORECASE)):
            return framework, f"its agent card ({found[0]!r})"
    for framework in FRAMEWORKS:
        if framework.server and (found := re.search(framework.server, server, re.IGNORECASE)):
            return framework, f"the server of its responses ({found[0]})"
    return None
