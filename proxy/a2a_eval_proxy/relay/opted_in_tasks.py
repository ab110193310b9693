"""The tasks for which a caller asked for the extension, and those with a webhook: both affect later requests."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qsl

from a2a_tool_capture.recent import RecentKeys

from ..protocol.agent_card import ApiKey

_CREDENTIALS = frozenset(
    {
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"x-api-key",
        b"api-key",
        b"apikey",
        b"x-auth-token",
        b"x-access-token",
        b"x-goog-api-key",
        b"x-goog-iap-jwt-assertion",
        b"x-amz-security-token",
        b"ocp-apim-subscription-key",
    }
)
"""Header fields that usually identify the caller. A card may declare others."""

_FORWARDED_FOR = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})

MAX_TASKS = 100_000
"""Of which it is remembered that a caller opted in, or that they have a webhook."""

Headers = Iterable[tuple[bytes, bytes]]


class OptedInTasks:
    """Remembers which caller opted in to which task, and which tasks have a webhook; at most `limit` of each."""

    def __init__(self, limit: int = MAX_TASKS) -> None:
        self._pairs: RecentKeys[tuple[bytes, str]] = RecentKeys(limit)
        self._with_webhook: RecentKeys[str] = RecentKeys(limit)

    def add(self, caller: bytes | None, task_ids: Iterable[str]) -> None:
        """`caller` is a key from `Callers.key`; without one, nothing is remembered."""
        if caller is not None:
            for task_id in task_ids:
                self._pairs.add((caller, task_id))

    def has(self, caller: bytes | None, task_id: str) -> bool:
        """Whether this caller asked for this task."""
        return caller is not None and (caller, task_id) in self._pairs

    def add_webhook(self, task_ids: Iterable[str]) -> None:
        """Remember that the agent notifies a webhook of these tasks, whoever configured it."""
        for task_id in task_ids:
            self._with_webhook.add(task_id)

    def has_webhook(self, task_id: str) -> bool:
        return task_id in self._with_webhook


class Callers:
    """Distinguishes callers by their credentials; keeps no secret, only a hash under a random key."""

    def __init__(self) -> None:
        self._hash_key = secrets.token_bytes(32)

    def key(self, headers: Headers, query: bytes, peer: str | None, declared: Iterable[ApiKey] = ()) -> bytes | None:
        """The caller's key; None for a caller that cannot be recognized again. Names of `headers` are in lower case,
        `peer` is an IP address.

        Requests with the same credentials have the same caller: Authorization, cookies, API keys under the usual
        names and under those that the card declares. Without credentials the caller is the peer's IP address, together
        with the headers in which a gateway names its client (X-Forwarded-For, Forwarded, X-Real-IP). Such a header
        only separates callers of one peer, so forging it does not make the caller of another peer.
        """
        names = _CREDENTIALS | {key.name.lower().encode() for key in declared if key.place == "header"}
        shown = sorted(item for item in headers if item[0] in names and item[1].strip())
        parameters = {key.name for key in declared if key.place == "query"}
        if parameters:
            shown += sorted(
                (name.encode(), value.encode())
                for name, value in parse_qsl(query.decode("latin-1"))
                if name in parameters
            )
        if not shown:
            if not peer:
                return None
            shown = [item for item in headers if item[0] in _FORWARDED_FOR]
            shown.append((b"", peer.encode()))
        digest = hashlib.blake2b(key=self._hash_key, digest_size=16)
        for part in (part for item in shown for part in item):
            digest.update(b"%d:%b" % (len(part), part))
        return digest.digest()
