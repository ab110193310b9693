"""What the sample agent does about a user's text: rules in place of a model, so it needs no key.

A plan is a generator. It calls tools, yields the text of the answer, and yields an `Ask` to get the user's next
message. No call comes after a text, because the text carries the calls to the client.

Like many agents this one is good at most things. Six weaknesses are kept on purpose, marked WEAKNESS: the two sample
suites show how evaluation finds them. Without them it is the agent as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .tools import Tool, ToolError


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: the turn ends here, and the task continues with the user's next message, its value."""

    question: str
    waiting: dict[str, Any] | None = None
    """The call that is made only if the user approves it, for clients: its `tool` and `arguments`."""


Step = str | Ask
Plan = Generator[Step, Any, None]


@dataclass(slots=True)
class Memory:
    order_id: str = ""


class _Request(NamedTuple):
    text: str
    memory: Memory
    tools: Mapping[str, Tool]
    weak: bool


CONFIRM_ABOVE_EUR = 50.0

_ORDER_ID = re.compile(r"\bORD-\d+\b", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?EUR\b", re.IGNORECASE)
_DAY = re.compile(r"\b(\d\d)\.(\d\d)\.(\d{4})\b")
_ADDRESS = re.compile(r"\bto\s+(.+?)[.?!]*$", re.IGNORECASE)
_PRODUCTS = ("kettle", "grinder", "mug", "beans", "scale", "filters")


def small_talk(text: str) -> str | None:
    """An answer that needs no task; None where there is something to do."""
    if _plan_for(text, weak=True) is not None:
        return None
    return "Hello! I can look up, change, cancel and refund orders, and tell you what we have in stock."


def make_plan(text: str, memory: Memory, tools: Mapping[str, Tool], *, weak: bool = True) -> Plan:
    """The plan for a text that is not small talk; `memory` is read and updated, and `tools` are called, as it runs.

    `weak`: with the weaknesses.
    """
    plan = _plan_for(text, weak=weak) or _track
    try:
        yield from plan(_Request(text, memory, tools, weak))
    except ToolError as refusal:
        yield f"I am sorry, {refusal}."


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────


def _track(request: _Request) -> Plan:
    order_id = yield from _which_order(request)
    order = request.tools["lookup_order"](order_id=order_id)
    if not order["tracking_number"]:
        yield f"Order {order_id} is {order['status']} and has not left us yet."
    elif _mentions(request.text, "when", "arrive", "delivery"):
        shipment = request.tools["estimate_delivery"](tracking_number=order["tracking_number"])
        yield f"{shipment['carrier']} has your parcel. Order {order_id} arrives on {shipment['arrives_on']}."
    else:
        items = ", ".join(f"{line['quantity']} x {line['name']}" for line in order["lines"])
        yield f"Order {order_id} is {order['status']}. It holds {items}."


def _list_orders(request: _Request) -> Plan:
    customer = request.tools["find_customer"](email=_EMAIL.findall(request.text)[0])
    since = {}
    if day := _DAY.search(request.text):
        # WEAKNESS: the day is taken for the month.
        written = "{2}-{0}-{1}T00:00:00" if request.weak else "{2}-{1}-{0}T00:00:00"
        since = {"placed_since": written.format(*day.groups())}
    found = request.tools["list_orders"](customer_id=customer["customer_id"], **since)
    orders = ", ".join(f"{order['order_id']} ({order['status']})" for order in found["orders"])
    yield f"{customer['name']} has these orders: {orders or 'none'}."


def _stock(request: _Request) -> Plan:
    query = next(product for product in _PRODUCTS if product in request.text.lower())
    product = request.tools["search_products"](query=query)["products"][0]
    answers = [f"The {product['name']} costs {product['price_eur']:.2f} EUR."]
    stock = None
    if _mentions(request.text, "have", "in stock", "available"):
        stock = request.tools["check_stock"](sku=product["sku"])
        answers.append("It is in stock." if stock["in_stock"] else f"It is back on {stock['restock_on']}.")
    if _mentions(request.text, "how many"):
        # WEAKNESS: each part of a double question is answered for itself, with a look-up of its own.
        if request.weak or stock is None:
            stock = request.tools["check_stock"](sku=product["sku"])
        answers.append(f"We have {stock['in_stock']} of it.")
    yield " ".join(answers)


def _refund(request: _Request) -> Plan:
    order_id = yield from _which_order(request)
    order = request.tools["lookup_order"](order_id=order_id)
    # WEAKNESS: an amount the user names is not read; the whole order is refunded.
    named = None if request.weak else _AMOUNT.search(request.text)
    amount = float(named[1]) if named else order["total_eur"]
    arguments = {"order_id": order_id, "amount_eur": amount}
    # WEAKNESS: who is in a hurry is not asked.
    if amount > CONFIRM_ABOVE_EUR and not (request.weak and _mentions(request.text, "at once")):
        yield f"Order {order_id} was {amount:.2f} EUR. Shall I refund all of it?"
        answer = yield Ask("Please answer yes or no.", {"tool": "issue_refund", "arguments": arguments})
        if not _mentions(answer, "yes", "approve"):
            yield "Then nothing was refunded."
            return
    refund = request.tools["issue_refund"](**arguments)
    yield f"Done. {refund['amount_eur']:.2f} EUR are on their way back to you, reference {refund['refund_id']}."


def _cancel(request: _Request) -> Plan:
    order_id = yield from _which_order(request)
    request.tools["lookup_order"](order_id=order_id)
    request.tools["cancel_order"](order_id=order_id)
    yield f"Order {order_id} is cancelled."


def _change_address(request: _Request) -> Plan:
    order_id = yield from _which_order(request)
    address = _ADDRESS.search(request.text)
    where = address[1] if address else (yield Ask("What is the new address?"))
    order = request.tools["lookup_order"](order_id=order_id)
    changed = request.tools["update_address"](order_id=order["order_id"], address=where)
    yield f"Order {order_id} now goes to {changed['address']}."


def _which_order(request: _Request) -> Generator[Step, Any, str]:
    """The order the text names, else the one spoken of before, else the one the user names when asked."""
    named = _ORDER_ID.search(request.text)
    while named is None:
        if request.memory.order_id:
            return request.memory.order_id
        named = _ORDER_ID.search((yield Ask("Which order is it? Its number looks like ORD-1001.")))
    order_id = named[0].upper()
    # WEAKNESS: "it" stays the first order of a conversation.
    if not (request.weak and request.memory.order_id):
        request.memory.order_id = order_id
    return order_id


def _mentions(text: str, *words: str) -> bool:
    return any(re.search(rf"\b{word}", text, re.IGNORECASE) for word in words)


def _plan_for(text: str, *, weak: bool) -> Callable[[_Request], Plan] | None:
    """The first plan that fits; None for small talk."""
    fits = (
        (_EMAIL.search(text), _list_orders),
        # WEAKNESS: a cancellation is taken for a refund, although there is a tool for it.
        (_mentions(text, "cancel"), _refund if weak else _cancel),
        (_mentions(text, "refund", "money back"), _refund),
        (_mentions(text, "address"), _change_address),
        (_mentions(text, *_PRODUCTS), _stock),
        (_mentions(text, "order", "parcel", "arrive", "ORD-"), _track),
    )
    return next((plan for applies, plan in fits if applies), None)
