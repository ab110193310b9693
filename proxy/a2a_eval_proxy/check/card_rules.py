"""Rules about the agent card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from a2a_tool_capture import URI, Severity

from .card import declared_extensions, offered_interfaces
from .record import CardSeen
from .rules import Problem, Rule, Skipped, Unseen, problem


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


def _interfaces_usable(seen: CardSeen) -> Iterator[Problem]:
    checked, left = offered_interfaces(seen.card)
    for item in left:
        if item.reason.startswith("its URL"):
            yield problem(seen, f"{item.interface}: {item.reason}", "supportedInterfaces")
    if not checked and not left:
        yield problem(seen, "the card offers no interface", "supportedInterfaces")
    if not checked:
        raise Unseen("the card offers no interface that can be checked")


CARD_RULES = (
    Rule(
        "card-declares",
        Severity.ERROR,
        "the card declares the extension",
        _declared,
        why="Clients and proxies activate the extension only if the card declares it.",
        fix=(
            "With a2a-sdk, replace DefaultRequestHandler by CapturingRequestHandler of a2a_tool_capture: it "
            "declares the extension and reports the calls. To declare it only, call declare_tool_calls(card). "
            'Without a2a-sdk, add to capabilities.extensions: {"uri": '
            '"https://arksim.arklex.ai/a2a/tool-call-capture/v1", "description": "...", "required": false}.'
        ),
    ),
    Rule(
        "card-optional",
        Severity.ERROR,
        "the extension is optional for clients",
        _field("required", "the card requires the extension of clients", lambda value: value in (False, None)),
        why="A required extension excludes every client that does not support it.",
        fix="Set `required` to false in the declaration.",
    ),
    Rule(
        "card-declared-once",
        Severity.WARNING,
        "the card declares the extension once",
        _repeated,
        why="Some readers use the first declaration, others the last; both must read the same.",
        fix="Remove the other declarations. declare_tool_calls(card) never adds a second one.",
    ),
    Rule(
        "card-without-params",
        Severity.WARNING,
        "the declaration has no `params`",
        _field("params", "the declaration has `params`; version 1 defines none", lambda value: value in ({}, None)),
        why="Version 1 defines no parameters, so clients ignore them.",
        fix="Remove `params` from the declaration.",
    ),
    Rule(
        "card-described",
        Severity.WARNING,
        "the declaration has a description",
        _field(
            "description",
            "the declaration has no description",
            lambda text: isinstance(text, str) and bool(text.strip()),
        ),
        why="The description states, for people who read the card, which data the agent reports.",
        fix="Set `description` in the declaration, or use agent_extension(), which has one.",
    ),
    Rule(
        "card-interfaces",
        Severity.ERROR,
        "all interfaces have absolute URLs",
        _interfaces_usable,
        why="Clients know an interface only from the card; they cannot reach one without an absolute URL.",
        fix="Give every interface an absolute http or https URL; gRPC interfaces HOST:PORT.",
    ),
)
