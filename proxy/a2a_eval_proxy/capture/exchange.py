"""Reads one HTTP request and its response for what they show about turns. Sans-io; never raises on bad input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.dialects import DialectMark
from a2a_tool_capture.errors import is_web_page, not_of_the_agent
from a2a_tool_capture.json_limits import WALKED
from a2a_tool_capture.spec import is_capture_uri
from a2a_tool_capture.wire import (
    TERMINAL_STATES,
    UNREAD_KEY,
    normalize_event,
    parts_text,
    received_event,
    rpc_error,
    unread_event,
)
from tool_call_evaluators.visibility import AGENT_UNREACHABLE

from ..memory import of_json
from ..protocol.operations import (
    SENDS_MESSAGE,
    A2ARequest,
    Operation,
    decode_json,
    encoded,
    is_generation_mismatch,
    read_send,
    rpc_method,
    rpc_request,
    user_message,
)
from ..turn import MOST_NAMES, STARTS_TRACE, NamedIn, Turn, TurnLinks
from .failures import CAPTURE_FAILED
from .records import ASKED_KEY, conversation_of, state_of
from .visibility import NOT_ASKED

CASE_METADATA_KEY = "a2a-eval-proxy/case"

_MAX_EXCERPT = 500
"""Characters of an agent's error message that a finding repeats."""

_UNREAD_BYTES = 2_000
"""Memory of the finding about an event that is not JSON."""

_MISMATCHES = frozenset({409, 412})
"""Statuses of a message whose task has another generation: the draft of A2A 1.1 has had both."""

_VERSION = re.compile(r"(\d{1,3}\.\d{1,3})(?:\.\d{1,5})?\Z", re.ASCII)

_MAX_VERSIONS = 64
"""Texts of clients that are remembered."""

_LAST_WORD = re.compile(r"[^\s\"',;&<>(){}\[\]]{1,200}\Z")
"""The last word of a text that was cut: redaction could no longer recognize a secret in it."""

_WATCHING = frozenset({Operation.GET, Operation.LIST, Operation.SUBSCRIBE, Operation.CANCEL})


@dataclass(slots=True)
class RequestFacts:
    """What the headers of a request contain. `version` is `A2A-Version` as sent ("" where it was not)."""

    run: str
    agent: str
    version: str
    case_id: str | None
    trace_id: str
    parent_span_id: str
    declared: bool
    requested_by_header: bool
    started_at: float
    agent_name: str | None = None
    agent_card: dict[str, str] | None = None
    client_span_id: str = ""
    """See `TurnLinks`, as `parent_turn_id`."""
    parent_turn_id: str = ""


class ExchangeBook(Protocol):
    """What exchanges report to: a `TurnBook`, or a `ForwardingBook`. What `open` and `watch` return has `findings`, and
    the `turn` that the exchange opened, as long as that is open."""

    @property
    def unread(self) -> tuple[DialectMark, ...]: ...

    def open(self, turn: Turn, now: float, *, returns_at_once: bool = False, if_generation: int = 0) -> Any: ...

    def watch(self, *, notified: str = "") -> Any: ...

    def feed(self, watcher: Any, event: dict[str, Any], now: float, *, live: bool, size: int) -> str: ...

    def touch(self, watcher: Any, now: float) -> None: ...

    def end(self, watcher: Any, now: float, *, problem: Finding | None = None, final: bool = False) -> None: ...

    def report(self, task_id: str, finding: Finding, now: float) -> None: ...


class Exchange:
    """Follows one exchange: `request_body`, then `event` or `answer`, then `end`.

    Once the request body is read, `requested` is whether the client asked for the extension.
    """

    def __init__(self, book: ExchangeBook, facts: RequestFacts, turn_id: str) -> None:
        """`turn_id`: of the turn that the request opens, if it opens one."""
        self._book = book
        self._facts = facts
        self._turn_id = turn_id
        self._watcher: Any = None
        self._state = ""
        self.conversation_id = ""
        """That which the answer names; "" for none."""
        self._read = False
        self._understood = False
        self._final = False
        self._message_came = False
        self._conditional: dict[str, Any] | None = None
        """The message, as long as the agent may still refuse it for the generation of its task: until then it opens no
        turn, and a turn that is open is not ended by it."""
        self.request: A2ARequest | None = None
        self.requested = facts.requested_by_header
        self.task_ids: list[str] = []
        """Ids of the tasks in the response so far."""
        self.task_over = False
        """Whether the task is known to have ended, after `end`."""

    # ── request ─────────────────────────────────────────────────────────────────────────────────────────

    def read_request(self, rest: A2ARequest | None, body: bytes, payload: Any = None) -> None:
        """Set `request` and `requested`; later calls do nothing.

        `rest` is what the path shows, None where only the body does (JSON-RPC). What cannot be read is the agent's
        to answer: `request` stays None. `payload` is the decoded body, where the caller has it.
        """
        if self._read:
            return
        self._read = True
        request = rest
        if request is None or request.operation in SENDS_MESSAGE:
            try:
                decoded = decode_json(body) if body and payload is None else payload
            except ValueError:
                return  # the agent's to answer
            if request is None:
                request = rpc_request(decoded)
            else:
                read_send(request, decoded)
        self.request = request
        if request is None:
            return
        if request.operation is Operation.BATCH:  # not captured, but one that asks gets what it asked for
            items = decoded if isinstance(decoded, list) else ()
            messages = [user_message(item.get("params")) for item in items if isinstance(item, dict)]
            self.requested = self.requested or any(_asks(message) for message in messages if message)
        elif request.message is not None:
            self.requested = self.requested or _asks(request.message)

    def request_body(self, rest: A2ARequest | None, body: bytes, now: float) -> None:
        """The request is complete and sent: see `read_request`. A message opens a turn."""
        if not self._read:
            self.read_request(rest, body)
        request = self.request
        if request is None:
            return
        if request.message is not None and request.if_generation and request.named_task:
            self._conditional = request.message
        elif request.message is not None:
            self._open_turn(request, request.message, now)
        elif request.operation in _WATCHING:
            self._watcher = self._book.watch()

    def unread_request(self, rest: A2ARequest | None, beginning: bytes, why: tuple[str, str], now: float) -> None:
        """The request was not read: its path or first bytes have to suffice. `why`: code and message of a finding."""
        self.request = rest or rpc_method(beginning)
        if self.request is not None and self.request.operation in SENDS_MESSAGE:
            self.request.has_webhook = True  # it may have one
            self._open_turn(self.request, {}, now)
            self.report(*why)

    def _open_turn(self, request: A2ARequest, message: dict[str, Any], now: float) -> None:
        facts = self._facts
        metadata = message.get("metadata")
        case = metadata.get(CASE_METADATA_KEY) if isinstance(metadata, dict) else None
        context_id, task_id = message.get("contextId"), message.get("taskId")
        links = facts.client_span_id or not _NAMES_OTHERS.isdisjoint(message)
        turn = Turn(
            turn_id=self._turn_id,
            run=facts.run,
            agent=facts.agent,
            agent_name=facts.agent_name,
            agent_card=facts.agent_card,
            binding=str(request.binding),
            protocol_version="0.3" if request.legacy or not facts.version else major_minor(facts.version),
            started_at=facts.started_at,
            case_id=facts.case_id or (case if isinstance(case, str) and case else None),
            conversation_id=context_id if isinstance(context_id, str) else "",
            task_id=task_id if isinstance(task_id, str) else "",
            trace_id=facts.trace_id,
            parent_span_id=facts.parent_span_id,
            user_text=parts_text(message),
            links=_links(facts, message) if links else STARTS_TRACE,
        )
        turn.capture.declared = facts.declared
        turn.capture.requested_by_client = self.requested
        request.message = None  # the turn has what it needs; the rest may be large
        self._watcher = self._book.open(
            turn, now, returns_at_once=request.returns_at_once, if_generation=request.if_generation
        )
        if request.has_webhook and facts.declared and not facts.requested_by_header:
            why = "the agent was not asked for tool calls: a webhook of this task may get them, past the proxy"
            self.report(NOT_ASKED, why)

    @property
    def concerns_turns(self) -> bool:
        """Whether the request sends a message or asks about tasks."""
        return self._watcher is not None or self._conditional is not None

    @property
    def turn(self) -> Turn | None:
        """The turn this exchange opened."""
        return self._watcher.turn if self._watcher else None

    @property
    def state(self) -> str:
        """The latest state of the task in the response, in 1.0 names; "" for none."""
        return self._state

    @property
    def awaits_task(self) -> bool:
        """Whether it opened a turn that is still open, whose task neither the request nor a response has named."""
        turn = self.turn
        return turn is not None and not turn.task_id and not self.task_ids

    def leave(self, problem: Finding) -> None:
        """The client has left for this reason; the turn stays open until `name_task`."""
        if self.turn is not None:
            self.turn.findings.append(problem)

    def name_task(self, task_id: str, now: float) -> None:
        """A notification names the task of the turn, if nothing else has done so."""
        if self._watcher is not None and self.awaits_task:
            named = {"statusUpdate": {"taskId": task_id}}
            self._remember(self._book.feed(self._watcher, named, now, live=False, size=0))

    def _accepted(self, now: float) -> None:
        """The agent has not refused the message."""
        message, self._conditional = self._conditional, None
        if message is not None and self.request is not None:
            self._open_turn(self.request, message, now)

    # ── response ────────────────────────────────────────────────────────────────────────────────────────

    def event(self, data: bytes, now: float, payload: Any = None, size: int | None = None) -> None:
        """One SSE event's data; `payload` is the decoded data, where the caller has it, `size` the most memory that it
        takes, where that is more than the data shows."""
        if not self.concerns_turns:
            return
        if data:
            self._take(data, payload, now, live=True, size=size)
        elif self._watcher is not None:
            self._book.touch(self._watcher, now)

    def answer(self, status: int, body: bytes, now: float, payload: Any = None, size: int | None = None) -> None:
        """The whole body of a response that is not a stream; `payload` and `size` as of an `event`."""
        if self._watcher is None and self._conditional is None:
            return
        if status >= 400:
            not_its = not_of_the_agent(status, {}, body.decode("utf-8", "replace"))
            what = f"HTTP status {status}{_error_message(body)}"
            self.refused(what, now, mismatch=status in _MISMATCHES, by=AGENT_UNREACHABLE if not_its else "agent_error")
        else:
            self._take(body, payload, now, live=False, size=size)

    def refused(self, status: str, now: float, *, mismatch: bool, by: str = "agent_error") -> None:
        """The exchange ended with an error, whose `status` says what it is; `by`: the finding that says whose it is.

        `mismatch`: it is that of a message whose task has another generation than the message requires, if it requires
        one: the client reads the task again and repeats the message. That is no failure, and no turn.
        """
        if mismatch and self._conditional is not None:
            self._conditional = None
            return
        self._accepted(now)
        self._understood = self._final = True
        self.report(by, f"the agent answered with {status}", Severity.ERROR)

    def end(self, now: float, *, problem: Finding | None = None, lost: bool = False) -> None:
        """The exchange ended. `lost`: the agent never answered, so that nothing can complete the turn."""
        if self._conditional is not None:
            self._accepted(now)
        watcher = self._watcher
        if watcher is None:
            return
        if problem is None and not self._understood and watcher.turn is not None:
            self.report("no_answer", "the response held no A2A event", Severity.ERROR)
        if problem is not None and problem.code == "client_gone" and self._message_came:
            problem = None  # a Message is the whole answer: clients need not wait for the end of its stream
        self.task_over = self._state in TERMINAL_STATES
        self._book.end(watcher, now, problem=problem, final=self._final or lost)

    def failed(self, now: float) -> None:
        """Capture has failed: the turn of this exchange, and the open turns of its tasks, may lack calls."""
        self._understood = True
        turn, named = self.turn, self.request.named_task if self.request is not None else ""
        if turn is not None and CAPTURE_FAILED not in turn.findings:
            turn.findings.append(CAPTURE_FAILED)
        for task_id in filter(None, dict.fromkeys([named, *self.task_ids])):
            self._book.report(task_id, CAPTURE_FAILED, now)

    def _take(self, data: bytes, payload: Any, now: float, *, live: bool, size: int | None) -> None:
        if self._conditional is not None:
            if payload is None:
                with suppress(ValueError):
                    payload = decode_json(data)
            if is_generation_mismatch(rpc_error(payload)):
                self._conditional = None
                return
            self._accepted(now)
        watcher, request = self._watcher, self.request
        if watcher is None or request is None:
            return
        for mark in self._book.unread:
            if mark.key in data and mark.finding not in watcher.findings:
                watcher.findings.append(mark.finding)
        if payload is None:
            try:
                payload = decode_json(data)
            except ValueError as error:
                if is_web_page({}, data[:1_000].decode("utf-8", "replace")):
                    self._understood = self._final = True
                    self.report(
                        AGENT_UNREACHABLE, "a web page came for an answer; is it the agent's URL?", Severity.ERROR
                    )
                    return
                unread = unread_event("malformed_response", f"not JSON: {error}")
                self._book.feed(watcher, unread, now, live=live, size=_UNREAD_BYTES)
                return
        problem = rpc_error(payload)
        if problem is not None:
            self._understood = self._final = True
            detail = problem.get("message") if isinstance(problem, dict) else problem
            code = problem.get("code") if isinstance(problem, dict) else None
            message = f"the agent answered with error {_excerpt(code)}: {_excerpt(detail)}"
            self.report("agent_error", message, Severity.ERROR)
            return
        if request.operation is Operation.LIST:
            self._take_list(payload, request, now, data)
            return
        event = received_event(payload, in_envelope=request.binding.has_envelope, in_stream=live)
        if _CHILD_MARK in data:
            event = {**event, ASKED_KEY: list(dict.fromkeys(_values(payload, _CHILD_KEY, WALKED)))[:MOST_NAMES]}
        self._understood = self._understood or UNREAD_KEY not in event
        self._message_came = self._message_came or "message" in event
        self._state = state_of(event) or self._state
        self.conversation_id = conversation_of(event) or self.conversation_id
        task_id = self._book.feed(watcher, event, now, live=live, size=size or of_json(data))
        if task_id and task_id not in self.task_ids:
            self.task_ids.append(task_id)

    def _take_list(self, payload: Any, request: A2ARequest, now: float, data: bytes) -> None:
        if request.binding.has_envelope and isinstance(payload, dict):
            payload = payload.get("result")
        tasks = payload.get("tasks") if isinstance(payload, dict) else None
        for task in tasks if isinstance(tasks, list) else ():
            event = normalize_event(task)
            if event is None or "task" not in event:
                continue
            if not request.includes_artifacts:  # by the protocol no snapshot: a later request may still show the calls
                self._remember(_string(event["task"].get("id")))
                continue
            watch = self._book.watch()
            size = of_json(encoded(task, data))
            self._remember(self._book.feed(watch, event, now, live=False, size=size))
            self._book.end(watch, now)

    def _remember(self, task_id: str) -> None:
        if task_id and task_id not in self.task_ids:
            self.task_ids.append(task_id)

    def report(self, code: str, message: str, severity: Severity = Severity.WARNING) -> None:
        if self._watcher is not None and len(self._watcher.findings) < 100:
            self._watcher.findings.append(Finding(code, message, severity, "response"))


_NAMES_OTHERS = frozenset({"referenceTaskIds", "metadata"})
"""Members of a message in which other turns may be named."""

_PARENT_KEYS: Mapping[str, NamedIn] = {
    "parent_task_id": NamedIn.PARENT_TASK,
    "parentTaskId": NamedIn.PARENT_TASK,
    "parent_context_id": NamedIn.PARENT_CONVERSATION,
    "parentContextId": NamedIn.PARENT_CONVERSATION,
}
"""Keys of a message's metadata by which frameworks name the task or the conversation of the agent that asks."""

_CHILD_KEY = "kagent_subagent_session_id"
_CHILD_MARK = _CHILD_KEY.encode()
"""Key of the metadata of a call of kagent that asks another agent: the contextId of that agent's conversation."""

_LONGEST_NAME = 256
"""Characters of an id that is kept as a name: an index limits the size of an entry."""


def _links(facts: RequestFacts, message: dict[str, Any]) -> TurnLinks:
    references, metadata = message.get("referenceTaskIds"), message.get("metadata")
    names = [(NamedIn.PARENT_TASK, task) for task in references] if isinstance(references, list) else []
    if isinstance(metadata, dict):
        names += [(kind, metadata[key]) for key, kind in _PARENT_KEYS.items() if key in metadata]
    if not names and not facts.client_span_id:
        return STARTS_TRACE
    valid = [name for name in names if isinstance(name[1], str) and 0 < len(name[1]) <= _LONGEST_NAME]
    return TurnLinks(facts.client_span_id, facts.parent_turn_id, tuple(dict.fromkeys(valid))[:MOST_NAMES])


def _values(value: Any, key: str, depth: int) -> Iterator[str]:
    """The ids that members of this name have."""
    if depth == 0 or not isinstance(value, dict | list):
        return
    if isinstance(value, dict) and isinstance(found := value.get(key), str) and 0 < len(found) <= _LONGEST_NAME:
        yield found
    for item in value.values() if isinstance(value, dict) else value:
        yield from _values(item, key, depth - 1)


def _asks(message: dict[str, Any]) -> bool:
    """Whether the user's message lists the extension."""
    extensions = message.get("extensions")
    return isinstance(extensions, list) and any(map(is_capture_uri, extensions))


def _error_message(body: bytes) -> str:
    """The message of an error body, for a finding; "" where it has none."""
    try:
        error = decode_json(body)["error"]
        return f": {_excerpt(error['message'])}"
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def _excerpt(value: Any) -> str:
    """A string or number of the agent for a finding, cut where it is long."""
    if not isinstance(value, str | int | float):
        return "without details"
    text = str(value)
    return text if len(text) <= _MAX_EXCERPT else _LAST_WORD.sub("", text[:_MAX_EXCERPT])


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


@lru_cache(_MAX_VERSIONS)
def major_minor(version: str) -> str:
    """A protocol version without patch number; "unknown" for any other string, which clients choose freely."""
    known = _VERSION.match(version)
    return known[1] if known else "unknown"
