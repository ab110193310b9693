"""Agents that get the extension wrong, one way each: the right one of `agents.capture_agent` behind a tamperer.

A tamperer changes which extensions the agent believes were asked for, and the JSON of its answers, over every
interface alike. `FAULTS` says of each fault which rules of `a2a-eval-proxy check` it breaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agents.capture_agent import FIRST, METADATA_KEY, OPERATION, SECOND, URI, Emission, build_app, cumulative
from starlette.requests import Request
from starlette.responses import Response

Json = dict[str, Any]
Asked = list[str]

_RPC = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "GetTask": "get",
    "ListTasks": "list",
    "SubscribeToTask": "subscribe",
    "message/send": "send",
    "message/stream": "stream",
    "tasks/get": "get",
    "tasks/resubscribe": "subscribe",
}


@dataclass(frozen=True)
class Fault:
    """`breaks` are the rules that must fail, and no others may; `warns` those that must warn.

    `believes` gets operation and asked URIs and returns the URIs that the agent acts on. `refuses` says of the asked
    URIs whether the request is answered with an error. `artifact` changes an artifact of an answer that was asked
    for version 1, `answer` a whole task or event; `echoes` returns what a response header lists; `card` changes the
    card. With `at_once`, sends are answered before the agent is done, which is its right; with `in_message`, the
    agent looks for extensions in the message and not in headers. `message` is what the check has to say to see the
    fault.
    """

    breaks: set[str] = field(default_factory=set)
    warns: set[str] = field(default_factory=set)
    believes: Callable[[str, Asked], Asked] = lambda operation, asked: asked
    refuses: Callable[[Asked], bool] = lambda asked: False
    artifact: Callable[[Json], None] | None = None
    answer: Callable[[Json], None] | None = None
    echoes: Callable[[Asked], Asked] = lambda asked: []
    card: Callable[[Json], None] | None = None
    emission: Callable[[int], Emission] = cumulative
    at_once: bool = False
    in_message: bool = False
    message: str = "Got a kettle?"


def faulty_app(url: str, fault: Fault) -> Any:
    """The ASGI application of an agent with that fault."""
    return _Tamperer(build_app(url, emission=fault.emission), fault)


class _Tamperer:
    def __init__(self, app: Any, fault: Fault) -> None:
        self._app = app
        self._fault = fault

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = await Request(scope, receive).body()
        operation = _operation(scope["path"], body)
        if operation == "send" and self._fault.at_once:
            body = _hurried(body)
        asked = _asked_in_message(body) if self._fault.in_message else _asked(scope["headers"])
        OPERATION.set(operation)
        if operation and self._fault.refuses(asked):
            await Response("unsupported extension", 400)(scope, receive, send)
            return
        believed = ",".join(self._fault.believes(operation, asked)).encode()
        headers = [
            *(item for item in scope["headers"] if not item[0].endswith((b"a2a-extensions", b"content-length"))),
            (b"content-length", b"%d" % len(body)),
            (b"a2a-extensions", believed),
            (b"x-a2a-extensions", believed),
        ]
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(messages, None) or await receive()

        await self._app({**scope, "headers": headers}, replay, _Response(send, self._fault, operation, asked))


class _Response:
    """Passes a response on, each JSON document in it changed."""

    def __init__(self, send: Any, fault: Fault, operation: str, asked: Asked) -> None:
        self._send = send
        self._fault = fault
        self._operation = operation
        self._asked = asked
        self._start: Any = None
        self._body = b""

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            dropped = (b"content-length", b"etag")
            headers = [(name, value) for name, value in message["headers"] if name.lower() not in dropped]
            if echoed := self._fault.echoes(self._asked):
                headers.append((b"a2a-extensions", ", ".join(echoed).encode()))
            await self._send({**message, "headers": headers})
            return
        self._body += message.get("body", b"")
        more = message.get("more_body", False)
        out = b""
        while b"\r\n\r\n" in self._body and self._body.startswith((b"data:", b"event:", b":")):
            event, _, self._body = self._body.partition(b"\r\n\r\n")
            lines = event.split(b"\r\n")
            out += b"\r\n".join(
                b"data: " + self._changed(line[5:]) if line.startswith(b"data:") else line for line in lines
            )
            out += b"\r\n\r\n"
        if not more:
            out += self._changed(self._body)
        await self._send({"type": "http.response.body", "body": out, "more_body": more})

    def _changed(self, document: bytes) -> bytes:
        try:
            content = json.loads(document)
        except ValueError:
            return document
        if not self._operation:
            if self._fault.card is not None:
                self._fault.card(content)
        elif URI in self._asked:
            if self._fault.artifact is not None:
                for artifact in _artifacts(content):
                    self._fault.artifact(artifact)
            if self._fault.answer is not None:
                self._fault.answer(content)
        return json.dumps(content).encode()


def _operation(path: str, body: bytes) -> str:
    """ "" for the card."""
    if path == "/rpc":
        return _RPC[json.loads(body)["method"]]
    if ":" in path:
        return path.rpartition(":")[2]
    if path.endswith("/tasks"):
        return "list"
    return "get" if "/tasks/" in path else ""


def _asked(headers: list[tuple[bytes, bytes]]) -> Asked:
    lists = [value.decode() for name, value in headers if name.endswith(b"a2a-extensions")]
    return [uri.strip() for value in lists for uri in value.split(",")]


def _hurried(body: bytes) -> bytes:
    """A send that does not wait, in the words of its version."""
    content = json.loads(body)
    params = content.get("params", content)
    legacy = "blocking" in params.get("configuration", {})
    params["configuration"] = {"blocking": False} if legacy else {"returnImmediately": True}
    return json.dumps(content).encode()


def _asked_in_message(body: bytes) -> Asked:
    content = json.loads(body or b"{}")
    params = content.get("params", content)
    message = params.get("message") or params.get("request", {})  # a2a-sdk's name of it in 0.3's HTTP+JSON
    return message.get("extensions", [])


def _artifacts(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "artifact":
                yield item
            elif key == "artifacts":
                yield from item
            else:
                yield from _artifacts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _artifacts(item)


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────


def _believes_it_was_asked_in(*operations: str) -> Callable[[str, Asked], Asked]:
    """Believes that these were asked for version 1."""
    return lambda operation, asked: [URI] if operation in operations else asked


def _deaf(*operations: str) -> Callable[[str, Asked], Asked]:
    """Believes that these were asked for nothing."""
    return lambda operation, asked: [] if operation in operations else asked


def _every_entry(change: Callable[[Json], Any]) -> Callable[[Json], None]:
    """Each entry replaced by what `change` returns, or changed in place."""

    def artifact(artifact: Json) -> None:
        if METADATA_KEY in artifact.get("metadata", {}):
            entries = artifact["metadata"][METADATA_KEY]
            artifact["metadata"][METADATA_KEY] = [change(entry) or entry for entry in entries]

    return artifact


def _calls_become(change: Callable[[Json, Any], None]) -> Callable[[Json], None]:
    """`change` gets the artifact and the calls that were taken off it."""

    def artifact(artifact: Json) -> None:
        if METADATA_KEY in artifact.get("metadata", {}):
            change(artifact, artifact["metadata"].pop(METADATA_KEY))

    return artifact


def _on_the_holder(answer: Json) -> None:
    """Moves the calls from artifacts to the metadata of the task."""
    inner = answer.get("result", answer)
    for holder in [inner, inner.get("task"), inner.get("artifactUpdate"), *inner.get("tasks", [])]:
        for artifact in [*_artifacts(holder)] if isinstance(holder, dict) else []:
            calls = artifact.get("metadata", {}).pop(METADATA_KEY, None)
            if calls is not None:
                holder.setdefault("metadata", {})[METADATA_KEY] = calls


def _forgets(operation: str) -> Callable[[Json], None]:
    """Answers of this operation have the first call of each list only."""

    def answer(answer: Json) -> None:
        if OPERATION.get() == operation:
            for artifact in _artifacts(answer):
                del artifact["metadata"][METADATA_KEY][1:]

    return answer


def _extension(**changes: Any) -> Callable[[Json], None]:
    def card(card: Json) -> None:
        card["capabilities"]["extensions"][0].update(changes)

    return card


def _declared_as(value: Any) -> Fault:
    return Fault({"card-declares"}, card=lambda card: card["capabilities"].update(extensions=value))


def _calls(change: Callable[[Json], Any], *breaks: str, warns: tuple[str, ...] = ()) -> Fault:
    return Fault(set(breaks), set(warns), artifact=_every_entry(change))


EVERY_SILENCE = {"send-silent", "stream-silent"}
EVERY_LATER_SILENCE = {"get-silent", "list-silent", "subscribe-silent"}

FAULTS: dict[str, Fault] = {
    # the card
    "not declared": Fault({"card-declares"}, card=lambda card: card["capabilities"].pop("extensions")),
    "declared with a slash": Fault({"card-declares"}, card=_extension(uri=f"{URI}/")),
    "declared in another version": Fault({"card-declares"}, card=_extension(uri=URI.replace("/v1", "/v2"))),
    "declared as an object": _declared_as({URI: {}}),
    "declared as a text": _declared_as([URI]),
    "required": Fault({"card-optional"}, card=_extension(required=True)),
    "declared twice": Fault(
        warns={"card-declared-once"},
        card=lambda card: card["capabilities"]["extensions"].append(card["capabilities"]["extensions"][0]),
    ),
    "with parameters": Fault(warns={"card-without-params"}, card=_extension(params={"mode": "full"})),
    "not described": Fault(warns={"card-described"}, card=_extension(description=" ")),
    # who asks is told
    "out of order": Fault({"answers"}, refuses=lambda asked: True),
    "looks for it in the message": Fault({"header-activates"}, in_message=True),
    "refuses to be asked": Fault({"asking-harmless"}, refuses=lambda asked: asked == [URI]),
    "silent in sends": Fault({"send-asked"}, believes=_deaf("send")),
    "silent in streams": Fault({"stream-asked"}, believes=_deaf("stream")),
    "silent in gets": Fault({"get-asked", "snapshot-complete"}, believes=_deaf("get")),
    "silent in lists": Fault({"list-asked"}, believes=_deaf("list")),
    "forgetful in gets": Fault({"get-asked", "snapshot-complete"}, answer=_forgets("get")),
    "forgetful in lists": Fault({"list-asked"}, answer=_forgets("list")),
    "silent to subscribers": Fault({"subscribe-asked"}, believes=_deaf("subscribe"), message="ask me"),
    "silent to live subscribers": Fault({"subscribe-asked"}, believes=_deaf("subscribe"), message="slow down"),
    # who does not ask is not told
    "reports in sends": Fault({"send-silent", "unknown-version-silent"}, believes=_believes_it_was_asked_in("send")),
    "reports in streams": Fault({"stream-silent"}, believes=_believes_it_was_asked_in("stream")),
    "reports in gets": Fault(warns={"get-silent"}, believes=_believes_it_was_asked_in("get")),
    "reports in lists": Fault(warns={"list-silent"}, believes=_believes_it_was_asked_in("list")),
    "reports to subscribers": Fault(
        warns={"subscribe-silent"}, believes=_believes_it_was_asked_in("subscribe"), message="ask me"
    ),
    "reports to live subscribers": Fault(
        warns={"subscribe-silent"}, believes=_believes_it_was_asked_in("subscribe"), message="slow down"
    ),
    "reports to everyone": Fault(
        {*EVERY_SILENCE, "unknown-version-silent"},
        EVERY_LATER_SILENCE,
        believes=lambda operation, asked: [URI],
        message="ask me",
    ),
    "activation shown to everyone": Fault(
        {*EVERY_SILENCE, "unknown-version-silent"}, EVERY_LATER_SILENCE, echoes=lambda asked: [URI], message="ask me"
    ),
    # versions
    "refuses unknown versions": Fault(
        {"unknown-version-harmless"}, refuses=lambda asked: any(uri.endswith("999") for uri in asked)
    ),
    "looks for a substring": Fault(
        {"unknown-version-silent"}, believes=lambda operation, asked: [URI] if URI in "".join(asked) else asked
    ),
    "echoes whatever is asked": Fault({"unknown-version-silent"}, echoes=lambda asked: asked),
    "compares the whole header": Fault(
        {"unknown-version-beside"}, believes=lambda operation, asked: asked if asked == [URI] else []
    ),
    # how calls are told
    "on the task": Fault(
        {"calls-on-artifacts"},
        answer=_on_the_holder,
    ),
    "under the URI": Fault(
        {"metadata-key"}, artifact=_calls_become(lambda artifact, calls: artifact["metadata"].update({URI: calls}))
    ),
    "under a short key": Fault(
        {"metadata-key"},
        artifact=_calls_become(lambda artifact, calls: artifact["metadata"].update(tool_calls=calls)),
    ),
    "URI not listed": Fault({"artifact-lists-uri"}, artifact=lambda artifact: artifact.pop("extensions", None)),
    "URI listed too late": Fault(
        {"artifact-lists-uri"}, emission=lambda number: Emission([FIRST, SECOND], lists_uri=number > 0)
    ),
    "calls in an object": Fault(
        {"entry-schema"},
        artifact=_calls_become(lambda artifact, calls: artifact["metadata"].update({METADATA_KEY: {"calls": calls}})),
    ),
    "without a name": _calls(lambda entry: entry.pop("name") and None, "entry-schema"),
    "with an empty name": _calls(lambda entry: entry.update(name=""), "entry-schema"),
    "arguments as text": _calls(lambda entry: entry.update(arguments=json.dumps(entry["arguments"])), "entry-schema"),
    "arguments null": _calls(lambda entry: entry.update(arguments=None), "entry-schema"),
    "a number as id": _calls(lambda entry: entry.update(id=7 if entry["id"] == "a" else 8), "entry-schema"),
    "an id that is null": _calls(lambda entry: entry.update(id=None), "entry-schema"),
    "entries that are texts": _calls(lambda entry: f"{entry['name']}()", "entry-schema"),
    "structured results": _calls(lambda entry: entry.update(result={"sku": "KET-01"}), warns=("entry-texts",)),
    "errors that are true": _calls(lambda entry: entry.update(error=True), warns=("entry-texts",)),
    "the same id": _calls(lambda entry: entry.update(id="call"), "ids-unique"),
    "ids that begin again with each message": Fault(
        {"ids-unique"},
        emission=lambda number: Emission([FIRST, SECOND][: number + 1], numbers_anew=True),
        message="resume me",
    ),
    "lists split over chunks": Fault(
        {"snapshot-complete"}, emission=lambda number: Emission([[FIRST], [SECOND]][number])
    ),
}


def faulty(name: str) -> Callable[[str], Any]:
    """The agent with that fault, for `agents.serving.ServerThread`."""
    return partial(faulty_app, fault=FAULTS[name])
