"""The rules about what the agent says over each of its interfaces."""

from __future__ import annotations

from a2a_tool_capture import METADATA_KEY, URI, Severity

from ...protocol.operations import Operation
from ..probe.record import Asked
from .base import Rule, Subject
from .disclosure import answers_plain, by_header, harmless, told_in, told_later, told_subscribers
from .non_disclosure import silent_in, unknown_silent
from .wire_format import (
    a_list,
    entries_follow,
    ids_unique,
    metadata_key,
    on_artifacts,
    snapshot_complete,
    uri_listed,
    with_calls,
)

_WRAP = "CapturingRequestHandler of a2a_tool_capture does this for agents on a2a-sdk."
_GATE = (
    "Look for the URI among the extensions the request activates (context.requested_extensions in a2a-sdk), in every "
    f"request anew, and leave the key and the URI out where it is not there. {_WRAP}"
)
_GATE_READS = (
    "Activation holds for one request, not for a task: take the calls off stored tasks where a read does not ask. "
    + _WRAP
)
_EMIT = (
    f"Where the request activates {URI}, put the calls on an artifact of the answer. If only streams show them, the "
    f"server lost them in merging chunks: put the URI and all calls so far on every chunk, from the first on. {_WRAP}"
)
_STORE = "Store artifacts with their metadata and extensions, and show both to requests that activate the extension."

_READS = {
    Operation.GET: "GetTask",
    Operation.LIST: "ListTasks",
    Operation.SUBSCRIBE: "SubscribeToTask",
}

TRAFFIC_RULES: tuple[Rule[Subject], ...] = (
    Rule(
        "answers",
        "plain messages are answered",
        answers_plain,
        "The card offers this interface, so clients will use it.",
        "Serve the interface at the URL in the card, or take it out of the card. If it wants credentials: --header.",
    ),
    Rule(
        "asking-harmless",
        "asking breaks nothing",
        harmless(Asked.V1),
        "An evaluation has to see the agent as its users do.",
        "Answer requests that activate the extension as you answer others.",
    ),
    Rule(
        "header-activates",
        "the header asks for calls",
        by_header,
        "A request activates extensions by A2A-Extensions (A2A 1.0, section 3.2.6), in A2A 0.3 by X-A2A-Extensions.",
        f"Look for the URI in that header (context.requested_extensions in a2a-sdk). {_WRAP}",
    ),
    Rule("send-asked", "send: calls, if asked", told_in(Operation.SEND, Asked.V1), "It is what was asked for.", _EMIT),
    Rule(
        "stream-asked",
        "stream: calls, if asked",
        told_in(Operation.STREAM, Asked.V1),
        "Most clients stream where the card says that they can.",
        _EMIT,
    ),
    *(
        Rule(
            f"{operation}-asked",
            f"{operation}: calls, if asked",
            told_subscribers if operation is Operation.SUBSCRIBE else told_later(operation),
            f"Clients that lost a stream, or did not wait for an answer, learn of the calls by {name}.",
            _STORE,
        )
        for operation, name in _READS.items()
    ),
    *(
        Rule(
            f"{operation}-silent",
            f"{operation}: nothing, if not asked",
            silent_in(operation),
            "Who did not ask must not learn of arguments and results: they may be confidential.",
            _GATE_READS if operation in _READS else _GATE,
        )
        for operation in (Operation.SEND, Operation.STREAM, *_READS)
    ),
    Rule(
        "unknown-version-harmless",
        "unknown versions break nothing",
        harmless(Asked.UNKNOWN, Asked.BESIDE),
        "Agents ignore extensions they do not know (A2A 1.0, section 3.2.6), so that clients can be newer.",
        "Ignore URIs that you do not know.",
    ),
    Rule(
        "unknown-version-silent",
        "unknown versions activate nothing",
        unknown_silent,
        "Another version is another extension; its clients would misread what version 1 says.",
        "Compare URIs whole: neither their beginning nor a part. Never echo activations that you do not honour.",
    ),
    Rule(
        "unknown-version-beside",
        "version 1 beside unknown versions",
        told_in(Operation.SEND, Asked.BESIDE),
        "Clients list every version they read; the header is a comma-separated list, with blanks.",
        "Split the extensions header at commas, and look for the URI among all that it lists.",
    ),
    Rule(
        "calls-on-artifacts",
        "calls are on artifacts only",
        with_calls(on_artifacts),
        "Version 1 is read from Artifact.metadata and nowhere else: Messages may be lost (A2A 1.0, section 3.7).",
        f"Move them to `metadata` of an artifact. {_WRAP}",
    ),
    Rule(
        "metadata-key",
        "calls are under the right key",
        with_calls(metadata_key),
        "Readers look for this key and no other.",
        f"Use METADATA_KEY of a2a_tool_capture, {METADATA_KEY!r}.",
    ),
    Rule(
        "artifact-lists-uri",
        "their artifact lists the URI",
        with_calls(uri_listed),
        "Readers ignore calls on artifacts that do not list the URI (A2A 1.0: an artifact names its extensions).",
        "Put the URI into `extensions` of the artifact's first chunk: servers ignore it on later ones. Best on all.",
    ),
    Rule(
        "calls-a-list",
        "calls are a list",
        with_calls(a_list),
        "Readers ignore anything else.",
        "Write a JSON array of call objects, [] for none.",
    ),
    Rule(
        "entry-schema",
        "calls follow the schema",
        with_calls(entries_follow(texts=False)),
        "Readers skip or guess what they cannot read, some lose the whole conversation.",
        "See schema/tool-call-capture-v1.schema.json in a2a_tool_capture: `name` a text, `arguments` an object, "
        "`id` a text.",
    ),
    Rule(
        "entry-texts",
        "results and errors are texts",
        with_calls(entries_follow(texts=True)),
        "Readers take the JSON text of anything else, each with its own spacing and numbers.",
        "Encode structured results yourself: json.dumps(result).",
        Severity.WARNING,
    ),
    Rule(
        "ids-unique",
        "ids are unique in a task",
        with_calls(ids_unique),
        "The same id again is read as the same call told again, so that one of two is lost.",
        "Give every call an id of its own: the model's, or a uuid.",
    ),
    Rule(
        "snapshot-complete",
        "streamed calls stay on the task",
        snapshot_complete,
        "Servers merge chunks by overwriting metadata keys: lists split over chunks survive in the stream only.",
        f"Put the whole list so far on every chunk of an artifact. {_WRAP}",
    ),
)
