"""Rules about the agent card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from a2a_tool_capture import URI, Severity

from ..probe.interfaces import declared_extensions, offered_interfaces
from ..probe.record import CardSeen
from ..signatures.result import SignatureStatus
from .base import Problem, Rule, Skipped, Unseen, problem

_DECLARE = (
    "With a2a-sdk, replace DefaultRequestHandler by CapturingRequestHandler of a2a_tool_capture: it declares the "
    "extension and reports the calls. To declare it only, call declare_tool_calls(card). Without a2a-sdk, add to "
    "capabilities.extensions: " + f'{{"uri": "{URI}", "description": "...", "required": false}}.'
)


def _declarations(card: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the entries that declare version 1, with their paths."""
    extensions = declared_extensions(card)
    return [
        (f"capabilities.extensions[{i}]", entry)
        for i, entry in enumerate(extensions if isinstance(extensions, list) else ())
        if isinstance(entry, dict) and entry.get("uri") == URI
    ]


def _declared(seen: CardSeen) -> Iterator[Problem]:
    if _declarations(seen.card):
        return
    extensions = declared_extensions(seen.card)
    if extensions is not None and not isinstance(extensions, list):
        yield problem(seen, "capabilities.extensions is not a list", "capabilities.extensions", extensions)
    elif near := [entry for entry in extensions or () if "tool-call-capture" in str(entry)]:
        message = f"the card declares the extension, but not with the URI {URI}"
        yield from (problem(seen, message, "capabilities.extensions", entry) for entry in near)
    else:
        yield problem(seen, f"the card does not declare {URI}", "capabilities.extensions", extensions)


def _field(name: str, message: str, is_right: Callable[[Any], bool]) -> Callable[[CardSeen], Iterator[Problem]]:
    """Returns a rule over the value of a field in every declaration; a missing one is None."""

    def test(seen: CardSeen) -> Iterator[Problem]:
        for where, entry in _each_declaration(seen):
            if not is_right(entry.get(name)):
                found = (f"{where}.{name}", entry[name]) if name in entry else (where, entry)
                yield problem(seen, message, *found)

    return test


def _each_declaration(seen: CardSeen) -> list[tuple[str, dict[str, Any]]]:
    declarations = _declarations(seen.card)
    if not declarations:
        raise Skipped("the card does not declare the extension")
    return declarations


def _repeated(seen: CardSeen) -> Iterator[Problem]:
    for where, entry in _each_declaration(seen)[1:]:
        yield problem(seen, "the card declares the extension a second time", where, entry)


def _signature_valid(seen: CardSeen) -> Iterator[Problem]:
    if not seen.signatures:
        raise Skipped("the card has no signature")
    for result in seen.signatures:
        if result.status is SignatureStatus.INVALID:
            yield problem(seen, f"the signature is invalid: {result.reason}", result.where)
    if not any(result.status is SignatureStatus.VERIFIED for result in seen.signatures):
        raise Unseen("not verifiable: " + "; ".join(dict.fromkeys(result.reason for result in seen.signatures)))


def _signature_covers_card(seen: CardSeen) -> Iterator[Problem]:
    verified = [result for result in seen.signatures if result.status is SignatureStatus.VERIFIED]
    if not verified:
        raise Skipped("the card has no verified signature")
    for result in verified:
        if result.uncovered:
            yield problem(seen, f"the signature does not cover {', '.join(result.uncovered)}", result.where)


def _interfaces_usable(seen: CardSeen) -> Iterator[Problem]:
    checked, left = offered_interfaces(seen.card)
    for item in left:
        if item.reason.startswith("its URL"):
            yield problem(seen, f"{item.interface}: {item.reason}", "supportedInterfaces")
    if not checked and not left:
        yield problem(seen, "the card offers no interface", "supportedInterfaces")
    if not checked:
        raise Unseen("the card offers no interface that can be checked")


CARD_RULES: tuple[Rule[CardSeen], ...] = (
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
        _field("required", "the card requires the extension of clients", lambda value: value in (False, None)),
        "A required extension excludes every client that does not support it.",
        "Set `required` to false in the declaration.",
    ),
    Rule(
        "card-declared-once",
        "the card declares the extension once",
        _repeated,
        "Some readers use the first declaration, others the last; both must read the same.",
        "Remove the other declarations. declare_tool_calls(card) never adds a second one.",
        Severity.WARNING,
    ),
    Rule(
        "card-without-params",
        "the declaration has no `params`",
        _field("params", "the declaration has `params`; version 1 defines none", lambda value: value in ({}, None)),
        "Version 1 defines no parameters, so clients ignore them.",
        "Remove `params` from the declaration.",
        Severity.WARNING,
    ),
    Rule(
        "card-described",
        "the declaration has a description",
        _field(
            "description",
            "the declaration has no description",
            lambda text: isinstance(text, str) and bool(text.strip()),
        ),
        "The description states, for people who read the card, which data the agent reports.",
        "Set `description` in the declaration, or use agent_extension(), which has one.",
        Severity.WARNING,
    ),
    Rule(
        "card-interfaces",
        "all interfaces have absolute URLs",
        _interfaces_usable,
        "Clients know an interface only from the card; they cannot reach one without an absolute URL.",
        "Give every interface an absolute http or https URL; gRPC interfaces HOST:PORT.",
    ),
    Rule(
        "card-signature",
        "the card's signature is valid",
        _signature_valid,
        "Clients that verify signatures refuse the card (A2A 1.0, section 8.4).",
        "Sign the card as it is served, after the last change to it; with a2a-sdk, by create_agent_card_signer.",
    ),
    Rule(
        "card-signature-covers",
        "the signature covers the whole card",
        _signature_covers_card,
        "Anyone on the way can change a field that no signature covers, such as the URLs of A2A 0.3.",
        "Leave fields of A2A 0.3 out of a signed card, or serve them in a card of their own.",
        Severity.WARNING,
    ),
)
