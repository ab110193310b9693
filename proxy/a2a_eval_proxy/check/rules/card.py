"""Rules about the agent card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2a_tool_capture import URI, Severity

from ..probe.interfaces import offered_interfaces
from ..probe.record import CardSeen, Record
from .base import Outcome, Problem, Rule, found

_DECLARE = (
    "On a2a-sdk: let CapturingRequestHandler of a2a_tool_capture take the place of DefaultRequestHandler: it declares "
    "the extension and tells the calls. Or only declare it, with declare_tool_calls(card). By hand, in "
    "capabilities.extensions: " + f'{{"uri": "{URI}", "description": "...", "required": false}}.'
)


def _extensions(card: dict[str, Any]) -> Any:
    capabilities = card.get("capabilities")
    return capabilities.get("extensions") if isinstance(capabilities, dict) else None


def _declarations(card: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The entries that declare version 1, with their places."""
    extensions = _extensions(card)
    return [
        (f"capabilities.extensions[{i}]", entry)
        for i, entry in enumerate(extensions if isinstance(extensions, list) else ())
        if isinstance(entry, dict) and entry.get("uri") == URI
    ]


def _problem(seen: CardSeen, message: str, where: str, excerpt: object = None) -> Problem:
    return Problem(message, seen.request, 200, where, excerpt)


def _declared(record: Record) -> Outcome:
    seen = record.card
    if _declarations(seen.card):
        return Outcome()
    extensions = _extensions(seen.card)
    if extensions is not None and not isinstance(extensions, list):
        message = "capabilities.extensions is not a list"
    elif near := [entry for entry in extensions or () if "tool-call-capture" in str(entry)]:
        return found(
            _problem(seen, f"the extension is declared, but not as {URI}", "capabilities.extensions", entry)
            for entry in near
        )
    else:
        message = f"the card does not declare {URI}"
    return found([_problem(seen, message, "capabilities.extensions", extensions)])


def _of_each(breach: Callable[[CardSeen, str, dict[str, Any]], Problem | None]) -> Callable[[Record], Outcome]:
    """A rule about every declaration, which says nothing where there is none."""

    def test(record: Record) -> Outcome:
        declarations = _declarations(record.card.card)
        if not declarations:
            return Outcome(skipped="the extension is not declared")
        judged = (breach(record.card, where, entry) for where, entry in declarations)
        return found(problem for problem in judged if problem is not None)

    return test


def _repeated(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    first, _ = _declarations(seen.card)[0]
    return None if where == first else _problem(seen, "the extension is declared again", where, entry)


def _required(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    if entry.get("required") in (False, None):
        return None
    return _problem(seen, "the extension is required of clients", f"{where}.required", entry["required"])


def _parameters(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    if entry.get("params") in ({}, None):
        return None
    return _problem(seen, "the declaration has parameters; version 1 has none", f"{where}.params", entry["params"])


def _undescribed(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    description = entry.get("description")
    if isinstance(description, str) and description.strip():
        return None
    return _problem(seen, "the declaration has no description", where, entry)


def _interfaces_usable(record: Record) -> Outcome:
    checked, left = offered_interfaces(record.card.card)
    wrong = [
        _problem(record.card, f"{item.interface}: {item.reason}", "supportedInterfaces")
        for item in left
        if item.reason.startswith("its URL")
    ]
    if not checked and not wrong and not left:
        wrong.append(_problem(record.card, "the card offers no interface", "supportedInterfaces"))
    if not checked and not wrong:
        return Outcome(unseen="the card offers no interface that can be checked")
    return found(wrong)


CARD_RULES: tuple[Rule[Record], ...] = (
    Rule(
        "card-declares",
        "the card declares the extension",
        _declared,
        "Clients and proxies ask for tool calls only where the card says that the agent has them.",
        _DECLARE,
    ),
    Rule(
        "card-optional",
        "it is not required of clients",
        _of_each(_required),
        "A required extension locks out every client that does not know it.",
        "Set `required` of the declaration to false.",
    ),
    Rule(
        "card-declared-once",
        "it is declared once",
        _of_each(_repeated),
        "Readers that take the first declaration and readers that take the last one must read the same.",
        "Remove the other declarations; declare_tool_calls(card) does not repeat itself.",
        Severity.WARNING,
    ),
    Rule(
        "card-without-params",
        "it has no parameters",
        _of_each(_parameters),
        "Version 1 defines none, so no client will look at them.",
        "Remove `params` from the declaration.",
        Severity.WARNING,
    ),
    Rule(
        "card-described",
        "it has a description",
        _of_each(_undescribed),
        "People read cards, too: the description says what an evaluation will see.",
        "Set `description` of the declaration, or use agent_extension(), which has one.",
        Severity.WARNING,
    ),
    Rule(
        "card-interfaces",
        "its interfaces have absolute URLs",
        _interfaces_usable,
        "Clients choose an interface by the card alone; one without an absolute URL cannot be reached.",
        "Give every interface an absolute http or https URL.",
    ),
)
