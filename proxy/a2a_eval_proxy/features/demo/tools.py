"""The shop's tools: real queries and updates on a real SQLite database.

Every tool takes and returns JSON values and can be repeated: the same refund or cancellation twice is the first
one again, so a suite gives the same result on a database that has been used before.
"""

from __future__ import annotations

import sqlite3
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
    """The tools over one database; `tools` maps their names to them.

    A database that does not exist or is empty is created with the sample data; another one is used as it is.
    Raises sqlite3.Error where `path` cannot be opened or is not a database.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)  # every statement is its own transaction
        self._db.row_factory = sqlite3.Row
        if not self._rows("SELECT name FROM sqlite_master LIMIT 1"):
            script = Path(__file__).with_name("shop.sql").read_text("utf-8")
            self._db.executescript(f"BEGIN;{script}COMMIT;")
        self.tools: dict[str, Tool] = {name: getattr(self, name) for name in TOOLS}

    def close(self) -> None:
        self._db.close()

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────

    def find_customer(self, email: str) -> dict[str, Any]:
        return self._one("SELECT * FROM customers WHERE email = ?", email.lower(), f"no customer has the email {email}")

    def list_orders(self, customer_id: str) -> dict[str, Any]:
        query = "SELECT order_id, placed_on, status FROM orders WHERE customer_id = ? ORDER BY order_id"
        return {"orders": self._rows(query, customer_id)}

    def lookup_order(self, order_id: str) -> dict[str, Any]:
        order = self._one("SELECT * FROM orders WHERE order_id = ?", order_id, f"there is no order {order_id}")
        lines = self._rows(
            "SELECT sku, name, quantity, price_eur FROM order_lines JOIN products USING (sku) WHERE order_id = ?",
            order_id,
        )
        total = round(sum(line["quantity"] * line["price_eur"] for line in lines), 2)
        return {**order, "lines": lines, "total_eur": total}

    def search_products(self, query: str) -> dict[str, Any]:
        found = self._rows(
            "SELECT sku, name, price_eur FROM products WHERE name LIKE '%' || ? || '%' ORDER BY sku", query
        )
        return {"products": found}

    def check_stock(self, sku: str) -> dict[str, Any]:
        query = "SELECT sku, in_stock, restock_on FROM products WHERE sku = ?"
        return self._one(query, sku, f"there is no product {sku}")

    def estimate_delivery(self, tracking_number: str) -> dict[str, Any]:
        query = "SELECT * FROM shipments WHERE tracking_number = ?"
        return self._one(query, tracking_number, f"no carrier knows {tracking_number}")

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────

    def issue_refund(self, order_id: str, amount_eur: float) -> dict[str, Any]:
        order = self.lookup_order(order_id)
        if order["status"] != "delivered":
            raise ToolError(f"refund refused: {order_id} is {order['status']}, not delivered")
        if (TODAY - date.fromisoformat(order["delivered_on"])).days > REFUND_DAYS:
            raise ToolError(f"refund refused: {order_id} was delivered more than {REFUND_DAYS} days ago")
        if not 0 < amount_eur <= order["total_eur"]:
            raise ToolError(f"refund refused: {amount_eur:.2f} EUR is not within the order's total")
        self._db.execute(
            "INSERT INTO refunds VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (order_id.replace("ORD", "REF"), order_id, amount_eur),
        )
        return self._one("SELECT * FROM refunds WHERE order_id = ?", order_id, f"no refund for {order_id}")

    def update_address(self, order_id: str, address: str) -> dict[str, Any]:
        order = self.lookup_order(order_id)
        if order["status"] != "processing":
            raise ToolError(f"address not changed: {order_id} is already {order['status']}")
        self._db.execute("UPDATE orders SET address = ? WHERE order_id = ?", (address, order_id))
        return {"order_id": order_id, "address": address}

    def cancel_order(self, order_id: str) -> dict[str, Any]:
        order = self.lookup_order(order_id)
        if order["status"] not in ("processing", "cancelled"):
            raise ToolError(f"not cancelled: {order_id} is already {order['status']}")
        self._db.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", (order_id,))
        return {"order_id": order_id, "status": "cancelled"}

    # ── the database ────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in self._db.execute(query, values)]

    def _one(self, query: str, value: str, missing: str) -> dict[str, Any]:
        """The only row of `query`. Raises ToolError(`missing`) without one."""
        rows = self._rows(query, value)
        if not rows:
            raise ToolError(missing)
        return rows[0]
