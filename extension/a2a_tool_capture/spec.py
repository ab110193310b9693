"""Constants of the tool-call-capture extension: URI, metadata key, versions, header names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from a2a.types import AgentExtension

BASE_URI = "https://arksim.arklex.ai/a2a/tool-call-capture"

EXTENSIONS_HEADER = "A2A-Extensions"
"""Request header that activates extensions (A2A 1.0, section 3.2.6)."""

LEGACY_EXTENSIONS_HEADER = "X-A2A-Extensions"
"""The same header in A2A 0.3."""

EXTENSIONS_HEADERS = frozenset(name.lower().encode() for name in (EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER))
"""Both names in lower case."""

OWN_ARTIFACT_PREFIX = "tool-calls-"
"""Prefix of the ids of artifacts that exist only for their tool calls."""

DESCRIPTION = "Reports tool calls in artifact metadata, for evaluation"


@dataclass(frozen=True, slots=True)
class ExtensionVersion:
    """One version of the extension. `number` orders versions; the highest one present is used."""

    number: int
    uri: str = field(init=False)
    metadata_key: str = field(init=False)
    """Key of `Artifact.metadata` that holds the list of calls."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", f"{BASE_URI}/v{self.number}")
        object.__setattr__(self, "metadata_key", f"{self.uri}/tool_calls")


V1 = ExtensionVersion(1)

KNOWN_VERSIONS: tuple[ExtensionVersion, ...] = (V1,)
"""Versions this library reads, highest first."""

URI = V1.uri
METADATA_KEY = V1.metadata_key
NOT_RECORDED_KEY = f"{URI}/not_recorded"
"""Key of metadata that lists in sentences why calls of the request may be missing, besides `METADATA_KEY`."""

ARGUMENTS_UNKNOWN = "arguments_unknown"
"""Key of an entry without `arguments`: true if the agent does not know them. Without it, the call has none."""


ARGUMENTS_JSON = "arguments_json"
"""Key of an entry: its arguments as JSON text, where `arguments` has strings for integers that protobuf would round."""

DEFAULT_ARGUMENTS = "default_arguments"
"""Key of an entry: the names of arguments that have the tool's default, so that the model need not have given them."""

STARTED_AT, ENDED_AT = "started_at", "ended_at"
"""Keys of an entry: when the call ran (RFC 3339), which tells calls that overlap from calls in order."""


class A2AToolCaptureExtension:
    """The same constants under arksim's name."""

    URI = URI
    METADATA_KEY = METADATA_KEY


def agent_extension(description: str = DESCRIPTION) -> AgentExtension:
    """The declaration for `AgentCard.capabilities.extensions`: optional for clients, without parameters.

    Returns an `a2a.types.AgentExtension`. Raises ImportError if a2a-sdk is not installed.
    """
    from a2a.types import AgentExtension  # the only place of this module that needs the SDK

    return AgentExtension(uri=URI, description=description, required=False)


def is_capture_uri(uri: object) -> TypeGuard[str]:
    """Whether this is a URI or a metadata key of the extension, in any version."""
    return isinstance(uri, str) and uri.startswith(BASE_URI) and uri[len(BASE_URI) :][:1] in ("", "/")


looks_alike = re.compile(r"tool[-_ ]?call[-_ ]?capture", re.IGNORECASE).search
"""Whether a text is such a name, or one that an agent may have written for it: of other case, scheme or host."""


def requested_uris(header_values: list[str]) -> list[str]:
    """The URIs in the values of an extensions header, in order, without duplicates."""
    uris = (uri.strip() for value in header_values for uri in value.split(","))
    return list(dict.fromkeys(uri for uri in uris if uri))


def strip_header(value: str) -> str:
    """The value of an extensions header without this extension's URIs; "" if nothing else was listed."""
    uris = requested_uris([value])
    kept = [uri for uri in uris if not is_capture_uri(uri)]
    return value if len(kept) == len(uris) else ", ".join(kept)


def strip_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """HTTP headers without the extension's activation; a header that lists nothing else is removed."""
    out = []
    for name, value in headers:
        if name.lower() in EXTENSIONS_HEADERS:
            value = strip_header(value.decode("latin-1")).encode("latin-1")
            if not value:
                continue
        out.append((name, value))
    return out
