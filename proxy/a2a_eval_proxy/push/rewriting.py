"""Webhooks in requests and responses: found and replaced by position, so that no other byte changes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..protocol.json_elements import after_space, read_object, read_value, string_end
from ..protocol.operations import A2ARequest, Operation

_MAX_DEPTH = 3  # configurations within a configuration: `config.pushNotificationConfig` in some versions


class NewWebhook(NamedTuple):
    url: str
    config_id: str  # the id that the client gives the configuration; "" for none


class WebhookPlace(NamedTuple):
    """Where a request sets a webhook."""

    start: int
    end: int  # the position of the URL's JSON string, with its quotes
    webhook: NewWebhook


def webhooks_in(text: str, request: A2ARequest) -> list[WebhookPlace]:
    """The webhooks that a request sets, from its body. Raises ValueError for text that is not JSON."""
    found: list[WebhookPlace] = []

    def params(_: str, at: int) -> tuple[Any, int]:
        if request.operation is Operation.PUSH_CONFIG:
            return _read_config(text, at, found, _MAX_DEPTH)
        return _read_within(text, at, lambda key: key == "configuration", configuration)

    def configuration(_: str, at: int) -> tuple[Any, int]:
        return _read_within(text, at, _names_config, lambda _, at: _read_config(text, at, found, _MAX_DEPTH))

    try:
        at = after_space(text, 0)
        if text[at] == "{":
            if request.binding.has_envelope:
                _read_within(text, at, lambda key: key == "params", params)
            else:
                params("", at)
    except (IndexError, StopIteration) as error:
        raise ValueError("the request is not JSON") from error
    return found


def _names_config(key: str) -> bool:
    return "pushnotification" in key.replace("_", "").lower()


def _read_within(
    text: str, at: int, wanted: Callable[[str], bool], read: Callable[[str, int], tuple[Any, int]]
) -> tuple[Any, int]:
    """Read the object at `at`, its `wanted` objects with `read`. Returns None and its end, as `read` does."""

    def member(key: str, at: int) -> tuple[Any, int]:
        return read(key, at) if text[at] == "{" and wanted(key) else read_value(text, at)

    return None, (read_object(text, at, member)[1] if text[at] == "{" else read_value(text, at)[1])


def _read_config(text: str, at: int, found: list[WebhookPlace], depth: int) -> tuple[Any, int]:
    def member(key: str, at: int) -> tuple[Any, int]:
        nested = depth and text[at] == "{" and (key == "config" or _names_config(key))
        return _read_config(text, at, found, depth - 1) if nested else read_value(text, at)

    if text[at] != "{":
        return read_value(text, at)
    members, end = read_object(text, at, member)
    config_id = next((value for _, _, key, value in members if key == "id" and isinstance(value, str)), "")
    for element in members:
        _, stop, key, value = element
        if key == "url" and isinstance(value, str) and value:
            colon = after_space(text, string_end(text, element[0]))
            found.append(WebhookPlace(after_space(text, colon + 1), stop, NewWebhook(value, config_id)))
    return None, end


def replaced(text: str, places: Sequence[WebhookPlace], urls: Sequence[str]) -> str:
    """`text` with these URLs at these places."""
    kept: list[str] = []
    position = 0
    for place, url in sorted(zip(places, urls, strict=True)):
        kept += (text[position : place.start], json.dumps(url))
        position = place.end
    return "".join([*kept, text[position:]])


class RelayAddresses:
    """The addresses below `push_url` that agents are given for webhooks."""

    ID = r"[A-Za-z0-9_-]{32}"

    def __init__(self, push_url: str) -> None:
        self._push_url = push_url
        spelt = re.escape(push_url).replace("/", r"\\?/")  # JSON allows both
        address = rf"{spelt}\\?/({self.ID})(?![A-Za-z0-9_-])"
        self._in_json, self._in_text = re.compile(address.encode()), re.compile(address)
        self._host = urlsplit(push_url).netloc.encode()

    def address(self, webhook_id: str) -> str:
        return f"{self._push_url}/{webhook_id}"

    def may_be_in(self, data: bytes) -> bool:
        """Whether `data` may hold an address, as JSON or as a protobuf message; a cheap test, never wrongly False."""
        return self._host in data

    def ids_in(self, body: bytes) -> list[str]:
        """The ids of webhooks whose addresses are in JSON."""
        return [match[1].decode() for match in self._in_json.finditer(body)]

    def restored(self, body: bytes, urls: Mapping[str, str]) -> bytes:
        """JSON with the clients' URLs, by id, in place of addresses of the proxy."""

        def url(match: re.Match[bytes]) -> bytes:
            known = urls.get(match[1].decode())
            return match[0] if known is None else json.dumps(known)[1:-1].encode()

        return self._in_json.sub(url, body)

    def masked(self, body: bytes) -> bytes:
        """JSON without the ids of webhooks."""
        return self._in_json.sub(lambda match: match[0].removesuffix(match[1]) + b"***", body)

    def restored_text(self, text: str, urls: Mapping[str, str]) -> str:
        """As `restored`, for plain text."""
        return self._in_text.sub(lambda match: urls.get(match[1], match[0]), text)

    def config_ids(self, payload: Any) -> dict[str, str]:
        """The ids of the configurations in a decoded response, by the id of their webhook."""
        found: dict[str, str] = {}
        waiting = [payload]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                url, config_id = value.get("url"), value.get("id")
                if isinstance(url, str) and isinstance(config_id, str) and url.startswith(f"{self._push_url}/"):
                    found[url.removeprefix(f"{self._push_url}/")] = config_id
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        return found


def deleted_config(rest_method: str, path: str, payload: Any) -> str | None:
    """The id of the configuration that a request deletes; None for any other request.

    `payload` is its decoded body: a JSON-RPC request, or anything for HTTP+JSON.
    """
    if rest_method == "DELETE":
        match = re.search(r"/pushNotificationConfigs/([^/]+)$", path)
        return match[1] if match else None
    method, params = (payload.get("method"), payload.get("params")) if isinstance(payload, dict) else (None, None)
    if not isinstance(method, str) or "delete" not in method.lower() or not isinstance(params, dict):
        return None
    for key in ("pushNotificationConfigId", "push_notification_config_id", "name", "id"):
        value = params.get(key)
        if isinstance(value, str):
            return value.rpartition("/")[2]
    return None
