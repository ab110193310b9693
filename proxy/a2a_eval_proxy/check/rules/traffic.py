"""The table of the rules about the agent's answers over each interface."""

from __future__ import annotations

from functools import partial

from ...protocol.operations import Operation
from ..probe.record import Activation
from . import disclosure, wire_format
from .base import Rule, Subject, rules

_of_calls = partial(partial, wire_format.where_calls_are_seen)

TRAFFIC_RULES: tuple[Rule[Subject], ...] = rules(
    {
        "answers": disclosure.plain_messages_answered,
        "asking-harmless": partial(disclosure.asking_is_harmless, [Activation.V1]),
        "header-activates": disclosure.activated_by_header_only,
        "send-asked": partial(disclosure.calls_shown_in, Operation.SEND, Activation.V1),
        "stream-asked": partial(disclosure.calls_shown_in, Operation.STREAM, Activation.V1),
        "get-asked": partial(disclosure.calls_shown_on_reread, Operation.GET),
        "list-asked": partial(disclosure.calls_shown_on_reread, Operation.LIST),
        "subscribe-asked": disclosure.calls_shown_to_subscribers,
        **{
            f"{operation}-silent": partial(disclosure.nothing_shown_in, operation)
            for operation in (Operation.SEND, Operation.STREAM, Operation.GET, Operation.LIST, Operation.SUBSCRIBE)
        },
        "unknown-version-harmless": partial(
            disclosure.asking_is_harmless, [Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN]
        ),
        "unknown-version-silent": disclosure.unknown_versions_activate_nothing,
        "unknown-version-beside": partial(disclosure.calls_shown_in, Operation.SEND, Activation.V1_WITH_UNKNOWN),
        "calls-on-artifacts": _of_calls(wire_format.calls_on_artifacts_only),
        "metadata-key": _of_calls(wire_format.metadata_key),
        "artifact-lists-uri": _of_calls(wire_format.uri_listed),
        "calls-a-list": _of_calls(wire_format.is_list),
        "entry-schema": partial(
            wire_format.where_calls_are_seen, partial(wire_format.entries_match_schema, texts=False)
        ),
        "entry-texts": _of_calls(partial(wire_format.entries_match_schema, texts=True)),
        "ids-unique": _of_calls(wire_format.ids_unique),
        "snapshot-complete": wire_format.snapshot_complete,
    }
)
