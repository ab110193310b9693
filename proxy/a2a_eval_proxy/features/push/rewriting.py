"""The addresses of the proxy that stand for webhooks, in requests, responses and notifications. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


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
