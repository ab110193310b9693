"""The table of the rules about the agent's answers over each interface."""

from __future__ import annotations

from functools import partial

from a2a_tool_capture import METADATA_KEY, URI, Severity

from ...protocol.operations import Operation
from ..probe.record import Activation
from . import disclosure, wire_format
from .base import Rule, Subject

_WRAP = "With a2a-sdk, CapturingRequestHandler of a2a_tool_capture does this."
_GATE = (
    "For every request, check whether it activates the URI (context.requested_extensions in a2a-sdk). If it does not, "
    f"omit the metadata key and the URI from the answer. {_WRAP}"
)
_GATE_READS = (
    "An activation applies to one request, not to a task: remove the calls of stored tasks from answers to requests "
    f"that do not activate the URI. {_WRAP}"
)
_EMIT = (
    f"If the request activates {URI}, put the calls on an artifact of the answer. If only streams show calls, the "
    f"server loses them when it merges chunks: put the URI and all calls so far on every chunk, starting with the "
    f"first. {_WRAP}"
)
_STORE = "Store artifacts with their metadata and extensions, and return both to requests that activate the extension."

_READS = {
    Operation.GET: "GetTask",
    Operation.LIST: "ListTasks",
    Operation.SUBSCRIBE: "SubscribeToTask",
}

TRAFFIC_RULES: tuple[Rule[Subject], ...] = (
    Rule(
        "answers",
        "messages without extensions work",
        disclosure.plain_messages_answered,
        "The card offers this interface, so clients use it.",
        "Serve the interface at the URL of the card, or remove it from the card. If the agent requires credentials, "
        "pass them with --header.",
    ),
    Rule(
        "asking-harmless",
        "activating breaks nothing",
        partial(disclosure.asking_is_harmless, [Activation.V1]),
        "An evaluation must see the same behavior as the agent's users.",
        "Answer requests that activate the extension like all other requests.",
    ),
    Rule(
        "header-activates",
        "the header activates",
        disclosure.activated_by_header_only,
        "The header A2A-Extensions activates extensions (A2A 1.0, section 3.2.6); in A2A 0.3 it is X-A2A-Extensions.",
        f"Read the URI from that header (context.requested_extensions in a2a-sdk). {_WRAP}",
    ),
    Rule(
        "send-asked",
        "send: calls if activated",
        partial(disclosure.calls_shown_in, Operation.SEND, Activation.V1),
        "The client requests the calls.",
        _EMIT,
    ),
    Rule(
        "stream-asked",
        "stream: calls if activated",
        partial(disclosure.calls_shown_in, Operation.STREAM, Activation.V1),
        "Most clients stream if the card declares streaming.",
        _EMIT,
    ),
    *(
        Rule(
            f"{operation}-asked",
            f"{operation}: calls if activated",
            disclosure.calls_shown_to_subscribers
            if operation is Operation.SUBSCRIBE
            else partial(disclosure.calls_shown_on_reread, operation),
            f"Clients that lost a stream, or did not wait for the answer, get the calls from {name}.",
            _STORE,
        )
        for operation, name in _READS.items()
    ),
    *(
        Rule(
            f"{operation}-silent",
            f"{operation}: nothing unless activated",
            partial(disclosure.nothing_shown_in, operation),
            "Arguments and results may be confidential: other clients must not see them.",
            _GATE_READS if operation in _READS else _GATE,
        )
        for operation in (Operation.SEND, Operation.STREAM, *_READS)
    ),
    Rule(
        "unknown-version-harmless",
        "unknown versions break nothing",
        partial(disclosure.asking_is_harmless, [Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN]),
        "Agents ignore unknown extensions (A2A 1.0, section 3.2.6), so that clients can be newer than agents.",
        "Ignore unknown URIs in the extensions header.",
    ),
    Rule(
        "unknown-version-silent",
        "unknown versions activate nothing",
        disclosure.unknown_versions_activate_nothing,
        "Another version is another extension; its clients would misread the data of version 1.",
        "Compare the whole URI, not a prefix or a substring. Do not echo URIs that the agent did not activate.",
    ),
    Rule(
        "unknown-version-beside",
        "version 1 with unknown versions",
        partial(disclosure.calls_shown_in, Operation.SEND, Activation.V1_WITH_UNKNOWN),
        "Clients list every version that they support; the header is a comma-separated list with optional spaces.",
        "Split the extensions header at commas, strip spaces, and search the whole list for the URI.",
    ),
    Rule(
        "calls-on-artifacts",
        "only artifacts carry calls",
        partial(wire_format.where_calls_are_seen, wire_format.calls_on_artifacts_only),
        "Readers look for calls only in Artifact.metadata: Messages may be lost (A2A 1.0, section 3.7).",
        f"Move the calls to `metadata` of an artifact. {_WRAP}",
    ),
    Rule(
        "metadata-key",
        "calls have the right metadata key",
        partial(wire_format.where_calls_are_seen, wire_format.metadata_key),
        "Readers look for this key only.",
        f"Use METADATA_KEY of a2a_tool_capture: {METADATA_KEY!r}.",
    ),
    Rule(
        "artifact-lists-uri",
        "artifacts with calls list the URI",
        partial(wire_format.where_calls_are_seen, wire_format.uri_listed),
        "Readers ignore calls on artifacts that do not list the URI (A2A 1.0: an artifact lists its extensions).",
        "Add the URI to `extensions` of every chunk of the artifact; the first is required, since servers ignore it "
        "on later ones.",
    ),
    Rule(
        "calls-a-list",
        "calls are a JSON array",
        partial(wire_format.where_calls_are_seen, wire_format.is_list),
        "Readers ignore anything else.",
        "Write a JSON array of call objects; [] if there are no calls.",
    ),
    Rule(
        "entry-schema",
        "calls match the schema",
        partial(wire_format.where_calls_are_seen, partial(wire_format.entries_match_schema, texts=False)),
        "Readers skip or guess invalid entries; some lose the whole conversation.",
        "Follow schema/tool-call-capture-v1.schema.json in a2a_tool_capture: `name` is a string, `arguments` an "
        "object, `id` a string.",
    ),
    Rule(
        "entry-texts",
        "results and errors are strings",
        partial(wire_format.where_calls_are_seen, partial(wire_format.entries_match_schema, texts=True)),
        "Readers convert other values to JSON, each with its own spacing and number format.",
        "Encode structured results in the agent: json.dumps(result).",
        Severity.WARNING,
    ),
    Rule(
        "ids-unique",
        "ids are unique within a task",
        partial(wire_format.where_calls_are_seen, wire_format.ids_unique),
        "Readers take a repeated id for the same call, so one of two calls is lost.",
        "Give every call its own id: the model's call id, or a UUID.",
    ),
    Rule(
        "snapshot-complete",
        "the task keeps streamed calls",
        wire_format.snapshot_complete,
        "Servers merge chunks by overwriting metadata keys: the task keeps only the last part of a split list.",
        f"Put all calls so far on every chunk of an artifact. {_WRAP}",
    ),
)
