"""Notifications that wait for their webhooks. No API, export or log shows them: they have credentials."""

from __future__ import annotations

from dataclasses import dataclass, field

from .webhooks import StoreTable

MOST_OF_A_WEBHOOK, MOST_BYTES = 1_000, 64 * 1024 * 1024
"""How many notifications may wait for one webhook, and how many bytes for all; further ones are not kept."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification that waits. Times are seconds since the epoch."""

    webhook_id: str = field(repr=False)
    content: str = field(repr=False)
    """The request, as its sender wrote it."""
    kept_at: int
    number: int = 0
    """Ascends in the order in which they were kept."""
    tries: int = 0
    due_at: int = 0
    """When to try next."""


DELIVERIES = {
    "webhook_id": "TEXT NOT NULL",
    "content": "TEXT NOT NULL",
    "kept_at": "BIGINT NOT NULL",
    "tries": "BIGINT NOT NULL DEFAULT 0",
    "due_at": "BIGINT NOT NULL DEFAULT 0",
}
"""The columns of the table, without its `number`."""

DELIVERIES_INDEX = "CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number)"

_ADD = (
    "INSERT INTO deliveries (webhook_id, content, kept_at)"  # noqa: S608  # fixed texts
    " SELECT CAST(:webhook_id AS TEXT), CAST(:content AS TEXT), CAST(:kept_at AS BIGINT)"
    f" WHERE (SELECT count(*) FROM deliveries WHERE webhook_id = :webhook_id) < {MOST_OF_A_WEBHOOK}"
    f" AND (SELECT coalesce(sum(length(content)), 0) FROM deliveries) < {MOST_BYTES}"
)
_FIRST = (
    "SELECT webhook_id, content, kept_at, number, tries, due_at FROM deliveries WHERE webhook_id = :webhook_id"
    " ORDER BY number LIMIT 1"
)
_WAITING = "SELECT DISTINCT webhook_id FROM deliveries"
_REMOVE = "DELETE FROM deliveries WHERE number = :number"
_REMOVE_ALL = "DELETE FROM deliveries WHERE webhook_id = :webhook_id"
_FAILED = "UPDATE deliveries SET tries = tries + 1, due_at = :due_at WHERE number = :number"
_LEASE = (
    "UPDATE webhooks SET lease_owner = :owner, lease_until = :until"
    " WHERE webhook_id = :webhook_id AND (lease_owner = :owner OR lease_until < :now)"
)


class DeliveryTable(StoreTable):
    """The notifications in a store."""

    async def add(self, delivery: Delivery) -> bool:
        """Keep a new one; False where too many wait."""
        values = {"webhook_id": delivery.webhook_id, "content": delivery.content, "kept_at": delivery.kept_at}
        return await self._change(_ADD, values) == 1

    async def first(self, webhook_id: str) -> Delivery | None:
        """The one that was kept first of those for a webhook."""
        rows = await self._read(_FIRST, {"webhook_id": webhook_id}, list)
        return Delivery(*rows[0]) if rows else None

    async def waiting(self) -> list[str]:
        """The webhooks for which notifications wait."""
        return [row[0] for row in await self._read(_WAITING, {}, list)]

    async def remove(self, delivery: Delivery) -> None:
        await self._change(_REMOVE, {"number": delivery.number})

    async def remove_all(self, webhook_id: str) -> None:
        await self._change(_REMOVE_ALL, {"webhook_id": webhook_id})

    async def failed(self, delivery: Delivery, due_at: float) -> None:
        """Try it again at `due_at`."""
        await self._change(_FAILED, {"number": delivery.number, "due_at": int(due_at)})

    async def lease(self, webhook_id: str, owner: str, now: float, until: float) -> bool:
        """Reserve a webhook for `owner`, as long as no other one has it."""
        values = {"webhook_id": webhook_id, "owner": owner, "now": int(now), "until": int(until)}
        return await self._change(_LEASE, values) == 1
