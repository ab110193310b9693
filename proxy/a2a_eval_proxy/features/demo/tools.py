"""The shop's tools: they look up and change its data, which is in memory.

Every tool takes and returns JSON values and can be repeated: the same refund or cancellation twice is the first
one again, so a suite gives the same result for an agent that has been used before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

TODAY = date(2026, 11, 2)
"""The shop's calendar stands still, as its data does."""

REFUND_DAYS = 30

Tool = Callable[..., dict[str, Any]]

TOOLS = (
    *("find_customer", "list_orders", "lookup_order", "search_products", "check_stock", "estimate_delivery"),
    *("issue_refund", "update_address", "cancel_order"),
)
"""Methods of `Shop`: those that read, and those that change something."""


class ToolError(Exception):
    """A tool did not do what it was asked to; the text is meant for the user."""


class Shop:
    """The tools over one copy of the sample data; `tools` maps their names to them."""

    def __init__(self) -> None:
        self._data = json.loads(Path(__file__).with_name("shop.json").read_text("utf-8"))
        self._refunds: dict[str, dict[str, Any]] = {}
        self.tools: dict[str, Tool] = {name: getattr(self, name) for name in TOOLS}

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────

    def find_customer(self, email: str) -> dict[str, Any]:
        return self._one("customers", "email", email.lower(), f"no customer has the email {email}")

    def list_orders(self, customer_id: str, placed_since: str = "") -> dict[str, Any]:
        """`placed_since`: a day or an instant as in ISO 8601."""
        own = [order for order in self._data["orders"] if order["customer_id"] == customer_id]
        recent = [order for order in own if order["placed_on"] >= placed_since[:10]]
        return {"orders": [_some(order, "order_id", "placed_on", "status") for order in recent]}

    def lookup_order(self, order_id: str) -> dict[str, Any]:
        order = self._order(order_id)
        total = round(sum(line["quantity"] * line["price_eur"] for line in order["lines"]), 2)
        return {**order, "total_eur": total}

    def search_products(self, query: str) -> dict[str, Any]:
        found = [product for product in self._data["products"] if query.lower() in product["name"].lower()]
        return {"products": [_some(product, "sku", "name", "price_eur") for product in found]}

    def check_stock(self, sku: str) -> dict[str, Any]:
        product = self._one("products", "sku", sku, f"there is no product {sku}")
        return _some(product, "sku", "in_stock", "restock_on")

    def estimate_delivery(self, tracking_number: str) -> dict[str, Any]:
        return self._one("shipments", "tracking_number", tracking_number, f"no carrier knows {tracking_number}")

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────

    def issue_refund(self, order_id: str, amount_eur: float) -> dict[str, Any]:
        order = self.lookup_order(order_id)
        if order["status"] != "delivered":
            raise ToolError(f"refund refused: {order_id} is {order['status']}, not delivered")
        if (TODAY - date.fromisoformat(order["delivered_on"])).days > REFUND_DAYS:
            raise ToolError(f"refund refused: {order_id} was delivered more than {REFUND_DAYS} days ago")
        if not 0 < amount_eur <= order["total_eur"]:
            raise ToolError(f"refund refused: {amount_eur:.2f} EUR is not within the order's total")
        refund = {"refund_id": order_id.replace("ORD", "REF"), "order_id": order_id, "amount_eur": amount_eur}
        return self._refunds.setdefault(order_id, refund)

    def update_address(self, order_id: str, address: str) -> dict[str, Any]:
        order = self._order(order_id)
        if order["status"] != "processing":
            raise ToolError(f"address not changed: {order_id} is already {order['status']}")
        order["address"] = address
        return {"order_id": order_id, "address": address}

    def cancel_order(self, order_id: str) -> dict[str, Any]:
        order = self._order(order_id)
        if order["status"] not in ("processing", "cancelled"):
            raise ToolError(f"not cancelled: {order_id} is already {order['status']}")
        order["status"] = "cancelled"
        return {"order_id": order_id, "status": "cancelled"}

    # ── for staff ───────────────────────────────────────────────────────────────────────────────────────

    def order_as_it_is(self, order_id: str) -> dict[str, Any] | None:
        """None: there is no such order."""
        orders = {order["order_id"]: order for order in self._data["orders"]}
        if order_id not in orders:
            return None
        refunded = self._refunds.get(order_id, {"amount_eur": 0})["amount_eur"]
        return {**_some(orders[order_id], "order_id", "status", "address"), "refunded_eur": refunded}

    # ── the data ────────────────────────────────────────────────────────────────────────────────────────

    def _order(self, order_id: str) -> dict[str, Any]:
        return self._one("orders", "order_id", order_id, f"there is no order {order_id}")

    def _one(self, kind: str, key: str, value: str, missing: str) -> dict[str, Any]:
        """Raises ToolError(`missing`) where there is none."""
        items: list[dict[str, Any]] = self._data[kind]
        for item in items:
            if item[key] == value:
                return item
        raise ToolError(missing)


def _some(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item[key] for key in keys}
