"""Rules about the agent card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2a_tool_capture import URI, Severity

from ..probe.interfaces import offered_interfaces
from ..probe.record import CardSeen, ProbeRecord
from .base import Problem, Rule, RuleOutcome, outcome_of

_DECLARE = (
    "With a2a-sdk, replace DefaultRequestHandler by CapturingRequestHandler of a2a_tool_capture: it declares the "
    "extension and reports the calls. To declare it only, call declare_tool_calls(card). Without a2a-sdk, add to "
    "capabilities.extensions: " + f'{{"uri": "{URI}", "description": "...", "required": false}}.'
)


def _extensions(card: dict[str, Any]) -> Any:
    capabilities = card.get("capabilities")
    return capabilities.get("extensions") if isinstance(capabilities, dict) else None


def _declarations(card: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the entries that declare version 1, with their paths."""
    extensions = _extensions(card)
    return [
        (f"capabilities.extensions[{i}]", entry)
        for i, entry in enumerate(extensions if isinstance(extensions, list) else ())
        if isinstance(entry, dict) and entry.get("uri") == URI
    ]


def _problem(seen: CardSeen, message: str, where: str, excerpt: object = None) -> Problem:
    return Problem(message, seen.request, 200, where, excerpt)


def _declared(record: ProbeRecord) -> RuleOutcome:
    seen = record.card
    if _declarations(seen.card):
        return RuleOutcome()
    extensions = _extensions(seen.card)
    if extensions is not None and not isinstance(extensions, list):
        message = "capabilities.extensions is not a list"
    elif near := [entry for entry in extensions or () if "tool-call-capture" in str(entry)]:
        return outcome_of(
            _problem(
                seen, f"the card declares the extension, but not with the URI {URI}", "capabilities.extensions", entry
            )
            for entry in near
        )
    else:
        message = f"the card does not declare {URI}"
    return outcome_of([_problem(seen, message, "capabilities.extensions", extensions)])


def _of_each(check: Callable[[CardSeen, str, dict[str, Any]], Problem | None]) -> Callable[[ProbeRecord], RuleOutcome]:
    """Returns a rule over every declaration, skipped without one."""

    def test(record: ProbeRecord) -> RuleOutcome:
        declarations = _declarations(record.card.card)
        if not declarations:
            return RuleOutcome(skipped="the card does not declare the extension")
        judged = (check(record.card, where, entry) for where, entry in declarations)
        return outcome_of(problem for problem in judged if problem is not None)

    return test


def _repeated(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    first, _ = _declarations(seen.card)[0]
    return None if where == first else _problem(seen, "the card declares the extension a second time", where, entry)


def _required(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    if entry.get("required") in (False, None):
        return None
    return _problem(seen, "the card requires the extension of clients", f"{where}.required", entry["required"])


def _parameters(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    if entry.get("params") in ({}, None):
        return None
    return _problem(seen, "the declaration has `params`; version 1 defines none", f"{where}.params", entry["params"])


def _undescribed(seen: CardSeen, where: str, entry: dict[str, Any]) -> Problem | None:
    description = entry.get("description")
    if isinstance(description, str) and description.strip():
        return None
    return _problem(seen, "the declaration has no description", where, entry)


def _interfaces_usable(record: ProbeRecord) -> RuleOutcome:
    checked, left = offered_interfaces(record.card.card)
    wrong = [
        _problem(record.card, f"{item.interface}: {item.reason}", "supportedInterfaces")
        for item in left
        if item.reason.startswith("its URL")
    ]
    if not checked and not wrong and not left:
        wrong.append(_problem(record.card, "the card offers no interface", "supportedInterfaces"))
    if not checked and not wrong:
        return RuleOutcome(unseen="the card offers no interface that can be checked")
    return outcome_of(wrong)


CARD_RULES: tuple[Rule[ProbeRecord], ...] = (
    Rule(
        "card-declares",
        "the card declares the extension",
        _declared,
        "Clients and proxies activate the extension only if the card declares it.",
        _DECLARE,
    ),
    Rule(
        "card-optional",
        "the extension is optional for clients",
        _of_each(_required),
        "A required extension excludes every client that does not support it.",
        "Set `required` to false in the declaration.",
    ),
    Rule(
        "card-declared-once",
        "the card declares the extension once",
        _of_each(_repeated),
        "Some readers use the first declaration, others the last; both must read the same.",
        "Remove the other declarations. declare_tool_calls(card) never adds a second one.",
        Severity.WARNING,
    ),
    Rule(
        "card-without-params",
        "the declaration has no `params`",
        _of_each(_parameters),
        "Version 1 defines no parameters, so clients ignore them.",
        "Remove `params` from the declaration.",
        Severity.WARNING,
    ),
    Rule(
        "card-described",
        "the declaration has a description",
        _of_each(_undescribed),
        "The description states, for people who read the card, which data the agent reports.",
        "Set `description` in the declaration, or use agent_extension(), which has one.",
        Severity.WARNING,
    ),
    Rule(
        "card-interfaces",
        "all interfaces have absolute URLs",
        _interfaces_usable,
        "Clients know an interface only from the card; they cannot reach one without an absolute URL.",
        "Give every interface an absolute http or https URL.",
    ),
)
