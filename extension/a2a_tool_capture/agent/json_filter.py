"""Removes the extension from the JSON of A2A responses and declares it on cards, in any A2A version. Pure."""

from __future__ import annotations

from typing import Any

from .. import extension_positions
from ..spec import DESCRIPTION, URI, is_capture_uri


def declare_extension(payload: Any, *, is_card: bool) -> bool:
    """Declare the extension on the agent card in `payload`; returns whether `payload` changed.

    `is_card`: `payload` is a card; otherwise it may be the response with the extended card. Signatures are removed
    from a card that changes.
    """
    card = payload
    if not is_card and isinstance(payload, dict) and isinstance(payload.get("result"), dict):
        card = payload["result"]
    if not isinstance(card, dict) or not (is_card or ("capabilities" in card and "name" in card)):
        return False
    capabilities = card.get("capabilities")
    if not isinstance(capabilities, dict):
        capabilities = card["capabilities"] = {}
    extensions = capabilities.get("extensions")
    if not isinstance(extensions, list):
        extensions = capabilities["extensions"] = []
    if any(isinstance(extension, dict) and extension.get("uri") == URI for extension in extensions):
        return False
    extensions.append({"uri": URI, "description": DESCRIPTION, "required": False})
    card.pop("signatures", None)
    return True


def without_calls(payload: Any) -> Any:
    """`payload`, a response or event, as it would be without the extension; changed in place.

    None for an event about an artifact that exists only for its calls. The content of data parts is not changed.
    """
    stack = [(payload, False)]
    while stack:
        value, in_error = stack.pop()
        if isinstance(value, list):
            stack += [(item, in_error) for item in value]
            continue
        if not isinstance(value, dict):
            continue
        ends = value.get("append") and value.get("lastChunk")  # marks the client's artifact as complete
        if not ends and extension_positions.exists_for_calls(value.get("artifact")):
            return None
        for key in ("artifacts", "history"):
            if isinstance(value.get(key), list):
                value[key] = [entry for entry in value[key] if not extension_positions.exists_for_calls(entry)]
        metadata, extensions = value.get("metadata"), value.get("extensions")
        if isinstance(metadata, dict) and any(map(is_capture_uri, metadata)):
            kept = {key: item for key, item in metadata.items() if not is_capture_uri(key)}
            _replace(value, "metadata", kept)
        if isinstance(extensions, list) and any(map(is_capture_uri, extensions)):
            _replace(value, "extensions", [uri for uri in extensions if not is_capture_uri(uri)])
        stack += [
            (item, in_error or key == "error")
            for key, item in value.items()
            if extension_positions.leads_on(key, in_error=in_error)
        ]
    return payload


def _replace(holder: dict[str, Any], key: str, kept: dict[str, Any] | list[Any]) -> None:
    if kept:
        holder[key] = kept
    else:
        del holder[key]
