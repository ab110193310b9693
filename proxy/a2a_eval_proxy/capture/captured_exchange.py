"""Reports what an exchange shows about turns to a book of them. Sans-io."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.approvals import kept_parts, message_words
from a2a_tool_capture.errors import is_web_page, not_of_the_agent
from a2a_tool_capture.json_limits import WALKED
from a2a_tool_capture.wire import (
    UNREAD_KEY,
    unread_event,
)
from tool_call_evaluators.visibility import AGENT_UNREACHABLE

from ..memory import of_json
from ..protocol.answers import ReadAnswer
from ..protocol.operations import SENDS_MESSAGE, A2ARequest, Operation, encoded, is_generation_mismatch
from ..turn import MOST_NAMES, STARTS_TRACE, NamedIn, Turn, TurnLinks
from .failures import CAPTURE_FAILED
from .task_events import CHILDREN_KEY
from .turn_book import BookEntry, TurnBook
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

CLIENT_GONE = "client_gone"
"""The code of the finding about an exchange whose client has left."""

_FOLLOWS_TASKS = frozenset({Operation.GET, Operation.LIST, Operation.SUBSCRIBE, Operation.CANCEL})


class ReadRequest(NamedTuple):
    """A request, as it was read."""

    request: A2ARequest | None
    """None for one that is not of A2A, or the agent's to answer."""
    requested: bool
    """Whether the client asked for the extension in it."""
    unread: tuple[str, str] | None = None
    """Code and message of a finding: why `request` has only what the path or the first bytes show."""
    is_notified: bool = False
    """Whether it sets a webhook whose notifications come here."""
    task_ids: Sequence[str] = ()
    """Ids of the tasks in the answer so far: it grows."""


class CapturedExchange:
    """Follows one exchange, of which it gets what was read: `request`, then `event` or `answer`, then `end`. It says
    nothing to whoever relays the exchange."""

    def __init__(self, book: TurnBook, turn: Turn, *, asked_by_header: bool) -> None:
        """`turn`: what the request opens, if it opens one, as far as its header shows it. `asked_by_header`: whether
        that asks for the extension."""
        self._book = book
        self._turn = turn
        self._asked_by_header = asked_by_header
        self._sent = ReadRequest(None, asked_by_header)
        self._reported: BookEntry | None = None
        self._understood = self._final = self._message_came = False
        self._conditional: dict[str, Any] | None = None
        """The message, as long as the agent may still refuse it for the generation of its task: until then it opens no
        turn, and a turn that is open is not ended by it."""
        self.named_task = ""
        """The task that the request names; "" for none."""
        self._notified_task = ""
        self._left: Finding | None = None
        """Set where the client has left, and the turn waits for a notification that names its task."""

    # ── request ─────────────────────────────────────────────────────────────────────────────────────────

    def request(self, sent: ReadRequest, now: float) -> None:
        """The request is complete and sent. A message opens a turn."""
        self._sent, request = sent, sent.request
        if request is None:
            return
        self.named_task = request.named_task
        if sent.unread is not None:
            if request.operation in SENDS_MESSAGE:
                self._open_turn(request, {}, now)
                self.report(*sent.unread)
        elif request.message is not None and request.if_generation and request.named_task:
            self._conditional = request.message
        elif request.message is not None:
            self._open_turn(request, request.message, now)
        elif request.operation in _FOLLOWS_TASKS:
            self._reported = self._book.follow()

    def _open_turn(self, request: A2ARequest, message: dict[str, Any], now: float) -> None:
        turn, metadata = self._turn, message.get("metadata")
        case = metadata.get(CASE_METADATA_KEY) if isinstance(metadata, dict) else None
        context_id, task_id = message.get("contextId"), message.get("taskId")
        turn.binding = str(request.binding)
        if request.legacy:
            turn.protocol_version = "0.3"
        turn.case_id = turn.case_id or (case if isinstance(case, str) and case else None)
        turn.conversation_id = context_id if isinstance(context_id, str) else ""
        turn.task_id = task_id if isinstance(task_id, str) else ""
        turn.user_text, turn.user_parts = message_words(message), kept_parts(message)
        turn.links = turn.links or STARTS_TRACE
        if "referenceTaskIds" in message or "metadata" in message:
            turn.links = _with_names(turn.links, message)
        turn.capture.requested_by_client = self._sent.requested
        self._reported = self._book.open(
            turn, now, returns_at_once=request.returns_at_once, if_generation=request.if_generation
        )
        if request.has_webhook and turn.capture.declared and not self._asked_by_header:
            why = "the agent was not asked for tool calls: a webhook of this task may get them, past the proxy"
            self.report(NOT_ASKED, why)

    @property
    def turn(self) -> Turn | None:
        """The turn this exchange opened."""
        return self._reported.turn if self._reported else None

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, and the turn was closed since: it timed out."""
        return self._left is not None and self.turn is None

    @property
    def _awaits_task(self) -> bool:
        """Whether it opened a turn that is still open, whose task neither the request nor a response has named."""
        turn = self.turn
        return turn is not None and not turn.task_id and not self._sent.task_ids

    def notified(self, task_id: str, now: float) -> None:
        """A webhook which the request set was notified of this task. It names the task of a turn that has none."""
        self._notified_task = task_id
        request = self._sent.request
        if self._left is not None or (request is not None and request.operation is Operation.SEND):
            self._name_task(now)  # events of a stream come no later than notifications
        if self._left is not None:
            left, self._left = self._left, None
            self.end(now, problem=left)

    def _name_task(self, now: float) -> None:
        if self._reported is not None and self._notified_task and self._awaits_task:
            named = {"statusUpdate": {"taskId": self._notified_task}}
            self._book.feed(self._reported, named, now, live=False, size=0)

    def _accepted(self, now: float) -> None:
        """The agent has not refused the message."""
        message, self._conditional = self._conditional, None
        if message is not None and self._sent.request is not None:
            self._open_turn(self._sent.request, message, now)

    # ── response ────────────────────────────────────────────────────────────────────────────────────────

    def event(self, answer: ReadAnswer, now: float) -> None:
        """One event of a stream."""
        if answer.data:
            self._take(answer, now, live=True)
        elif self._reported is not None:
            self._book.touch(self._reported, now)

    def answer(self, status: int, answer: ReadAnswer, now: float) -> None:
        """The whole answer, where it is not a stream."""
        if status >= 400:
            not_its = not_of_the_agent(status, {}, answer.data.decode("utf-8", "replace"))
            what = f"HTTP status {status}{_error_message(answer.error)}"
            self.refused(what, now, mismatch=status in _MISMATCHES, by=AGENT_UNREACHABLE if not_its else "agent_error")
        else:
            self._take(answer, now, live=False)

    def refused(self, status: str, now: float, mismatch: bool, by: str = "agent_error") -> None:
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

    def end(self, now: float, problem: Finding | None = None, lost: bool = False) -> None:
        """The exchange ended. `lost`: nothing of the agent can complete the turn."""
        is_gone = problem is not None and problem.code == CLIENT_GONE
        if is_gone and self._sent.is_notified:
            self._name_task(now)
            if self._awaits_task and problem is not None and self.turn is not None:
                self._left = problem
                self.turn.findings.append(problem)
                return
        self._accepted(now)
        reported = self._reported
        if reported is None:
            return
        if problem is None and not self._understood and reported.turn is not None:
            self.report("no_answer", "the response held no A2A event", Severity.ERROR)
        if is_gone and self._message_came:
            problem = None  # a Message is the whole answer: clients need not wait for the end of its stream
        self._book.end(reported, now, problem=problem, final=self._final or lost)

    def failed(self, now: float) -> None:
        """Capture has failed: the turn of this exchange, and the open turns of its tasks, may lack calls."""
        self._understood = True
        turn = self.turn
        if turn is not None and CAPTURE_FAILED not in turn.findings:
            turn.findings.append(CAPTURE_FAILED)
        for task_id in filter(None, dict.fromkeys([self.named_task, *self._sent.task_ids])):
            self._book.report(task_id, CAPTURE_FAILED, now)

    def _take(self, answer: ReadAnswer, now: float, *, live: bool) -> None:
        if self._conditional is not None:
            if is_generation_mismatch(answer.error):
                self._conditional = None
                return
            self._accepted(now)
        reported = self._reported
        if reported is None:
            return
        for dialect in self._book.rules.unread:
            if dialect.mark in answer.data and dialect.not_read not in reported.findings:
                reported.findings.append(dialect.not_read)
        if (event := answer.event) is not None:
            if _CHILD_MARK in answer.data:
                event = {**event, CHILDREN_KEY: list(dict.fromkeys(_values(event, _CHILD_KEY, WALKED)))[:MOST_NAMES]}
            self._understood = self._understood or UNREAD_KEY not in event
            self._message_came = self._message_came or "message" in event
            self._book.feed(reported, event, now, live=live, size=answer.size)
        elif answer.error is not None:
            self._take_error(answer.error)
        elif answer.problem:
            self._take_unreadable(reported, answer, now, live=live)
        elif self._sent.request is not None and self._sent.request.includes_artifacts:
            for event in answer.listed:  # else by the protocol no snapshots: a later request may still show the calls
                listed = self._book.follow()
                size = of_json(encoded(event["task"], answer.data))
                self._book.feed(listed, event, now, live=False, size=size)
                self._book.end(listed, now)

    def _take_error(self, error: Any) -> None:
        self._understood = self._final = True
        detail = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else None
        message = f"the agent answered with error {_excerpt(code)}: {_excerpt(detail)}"
        self.report("agent_error", message, Severity.ERROR)

    def _take_unreadable(self, reported: BookEntry, answer: ReadAnswer, now: float, *, live: bool) -> None:
        if is_web_page({}, answer.data[:1_000].decode("utf-8", "replace")):
            self._understood = self._final = True
            self.report(AGENT_UNREACHABLE, "a web page came for an answer; is it the agent's URL?", Severity.ERROR)
            return
        unread = unread_event("malformed_response", f"not JSON: {answer.problem}")
        self._book.feed(reported, unread, now, live=live, size=_UNREAD_BYTES)

    def report(self, code: str, message: str, severity: Severity = Severity.WARNING) -> None:
        """Add a finding to the turn."""
        if self._reported is not None and len(self._reported.findings) < 100:
            self._reported.findings.append(Finding(code, message, severity, "response"))


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


def _with_names(links: TurnLinks, message: dict[str, Any]) -> TurnLinks:
    """The links with what a message names."""
    references, metadata = message.get("referenceTaskIds"), message.get("metadata")
    names = [(NamedIn.PARENT_TASK, task) for task in references] if isinstance(references, list) else []
    if isinstance(metadata, dict):
        names += [(kind, metadata[key]) for key, kind in _PARENT_KEYS.items() if key in metadata]
    valid = [name for name in names if isinstance(name[1], str) and 0 < len(name[1]) <= _LONGEST_NAME]
    return links._replace(names=tuple(dict.fromkeys(valid))[:MOST_NAMES]) if valid else links


def _values(value: Any, key: str, depth: int) -> Iterator[str]:
    """The ids that members of this name have."""
    if depth == 0 or not isinstance(value, dict | list):
        return
    if isinstance(value, dict) and isinstance(found := value.get(key), str) and 0 < len(found) <= _LONGEST_NAME:
        yield found
    for item in value.values() if isinstance(value, dict) else value:
        yield from _values(item, key, depth - 1)


def _error_message(error: Any) -> str:
    """The message of an error body, for a finding; "" where it has none."""
    return f": {_excerpt(error['message'])}" if isinstance(error, dict) and "message" in error else ""


def _excerpt(value: Any) -> str:
    """A string or number of the agent for a finding, cut where it is long."""
    if not isinstance(value, str | int | float):
        return "without details"
    text = str(value)
    return text if len(text) <= _MAX_EXCERPT else _LAST_WORD.sub("", text[:_MAX_EXCERPT])


@lru_cache(_MAX_VERSIONS)
def major_minor(version: str) -> str:
    """A protocol version without patch number; "unknown" for any other string, which clients choose freely."""
    known = _VERSION.match(version)
    return known[1] if known else "unknown"
