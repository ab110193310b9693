"""Compares an agent direct and through a proxy, over every interface of its card."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from a2a_tool_capture.wire import TERMINAL_STATES, normalize_event

from ...capture.records import conversation_of, state_of
from ...errors import ConfigError
from ...protocol.agent_card import WELL_KNOWN_PATHS
from ...protocol.operations import Binding, Operation
from ..probe import push_requests, requests
from ..probe.answer import NO_ANSWER, WireAnswer
from ..probe.client import AgentTransport, ProbeClient
from ..probe.dialogue import FALLBACK_MESSAGE, interfaces_of, skill_examples
from ..probe.grpc_trials import is_grpc
from ..probe.interfaces import declared_extensions, offers_push, offers_streaming
from ..probe.record import Activation, Interface, OperationRequest, ProbeRequest
from ..probe.responses import task_id_of
from .differences import (
    PUSH_REFUSED,
    IdPairing,
    OperationComparison,
    compare,
    interface_deltas,
    interface_pairs,
    name_refusal,
    names_calls,
    refuses_push,
    signatures_kept,
    unsigned,
    with_design,
    without_addresses,
)

Progress = Callable[[str], None]

RUNNING = "subscribe to a running task"
_RUNNING_STATES = frozenset({"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"})
_LEAST_RUN_S = 1.0
"""How long the events of a subscription take at least, in seconds: of a shorter run, a proxy may just be too late."""

_ATTEMPTS = 3
"""What a subscription shows depends on the moment when it begins, too: a difference must show every time."""


CONFIG_ID = "a2a-eval-proxy-check"
WEBHOOK = "https://webhook.invalid/a2a-eval-proxy-check"
"""A name that cannot exist (RFC 6761): nothing is sent there, as the task has ended."""

_PUSH_CONFIG: dict[str, Callable[[Interface, str], OperationRequest]] = {
    "create": partial(push_requests.create, configuration={"id": CONFIG_ID, "url": WEBHOOK}),
    "get": partial(push_requests.get, config_id=CONFIG_ID),
    "list": push_requests.list_all,
    "delete": partial(push_requests.delete, config_id=CONFIG_ID),
}


@dataclass(slots=True)
class Side:
    """One way to the agent, over one interface; and what its last message led to."""

    sender: AgentTransport
    interface: Interface
    task: str = ""
    context: str = ""
    ended: bool = False
    running: bool = False

    def learn(self, answer: WireAnswer) -> None:
        """Take task and conversation from the answer to a message."""
        self.task, self.context, self.ended, self.running = "", "", False, False
        for message in answer.messages:
            value = message.value
            if self.interface.binding is Binding.JSONRPC and isinstance(value, dict):
                value = value.get("result")
            event = normalize_event(value)
            if event is not None:
                self.task = self.task or task_id_of(event)
                self.context = self.context or conversation_of(event)
                self.ended = state_of(event) in TERMINAL_STATES or self.ended
                self.running = state_of(event) in _RUNNING_STATES


@dataclass(slots=True)
class InterfaceComparison:
    """Compares the sides over one interface. `sides` are direct, direct again, and by the proxy."""

    interface: Interface
    sides: tuple[Side, Side, Side]
    progress: Progress
    done: list[OperationComparison] = field(default_factory=list)
    calls_seen: bool = False
    """Whether a direct answer to a request for tool calls has some."""
    unreachable: str = ""
    """Why the agent itself does not answer: nothing is compared then."""
    _again: IdPairing = field(default_factory=IdPairing)
    _proxied: IdPairing = field(init=False)
    push_refused: bool = False
    """Whether the proxy answered that it refuses push configurations."""

    def __post_init__(self) -> None:
        self._proxied = IdPairing(self._again)

    async def run(self, messages: Sequence[str], *, streams: bool, pushes: bool) -> list[OperationComparison]:
        """Compare every operation; `streams` and `pushes` are capabilities of the card. [] if `unreachable`."""
        await self._errors()
        if self.unreachable:
            return []
        if streams and messages:
            await self._running_task(messages[0])
        for message in messages:
            await self._message(message, streams=streams)
        await self._reads(pushes=pushes)
        return self.done

    async def _running_task(self, text: str) -> None:
        """A subscription to a task while it runs, if the agent has one that runs for long enough."""
        for left in reversed(range(_ATTEMPTS)):
            self.progress(f"{self.interface}: {RUNNING}")
            sent = [_send(side, text, configuration=requests.at_once(side.interface)) for side in self.sides]
            answers = (side.sender.answer(request) for side, request in zip(self.sides, sent, strict=True))
            for side, answer in zip(self.sides, await asyncio.gather(*answers), strict=True):
                side.learn(answer)
            if not all(side.running for side in self.sides):
                return
            trial = InterfaceComparison(self.interface, self.sides, self.progress)
            direct, again, _ = await trial._about_task(RUNNING, requests.subscribe)
            if min(direct.spread_s, again.spread_s) < _LEAST_RUN_S:
                return
            if not left or not trial.done[0].faults:
                self.done += trial.done
                return

    async def _message(self, text: str, *, streams: bool) -> None:
        """The message in each way, without and with a request for tool calls, and the task after it."""
        for asked in (True, False):  # the reads that follow are about the last one
            suffix = " (asking for tool calls)" if asked else ""
            activation = Activation.V1 if asked else Activation.NOTHING
            for operation in (Operation.STREAM, Operation.SEND) if streams else (Operation.SEND,):
                send = partial(_send, text=text, operation=operation, activation=activation)
                answers = await self._each(operation + suffix, send, asked=asked)
                for side, answer in zip(self.sides, answers, strict=True):
                    side.learn(answer)
            await self._about_task("get" + suffix, partial(requests.get, activation=activation), asked=asked)

    async def _reads(self, *, pushes: bool) -> None:
        if all(side.context for side in self.sides) and not self.interface.legacy:
            await self._each("list", lambda side: requests.list_tasks(side.interface, side.context))
        if all(side.ended for side in self.sides):  # else it would wait for events
            await self._about_task("subscribe", requests.subscribe)
        for verb, build in _PUSH_CONFIG.items() if pushes else ():
            await self._about_task(f"{verb} push configuration", build)
        await self._about_task("cancel", requests.cancel)
        await self._each("extended card", lambda side: requests.extended_card(side.interface), card=True)

    async def _errors(self) -> None:
        task = str(uuid.uuid4())
        direct, *_ = await self._each("unknown task", lambda side: requests.get(side.interface, task))
        if direct.outcome in (NO_ANSWER, "UNAVAILABLE"):
            self.unreachable = direct.ending or (direct.end.message if direct.end else "")
            return
        await self._each("unknown method", lambda side: requests.unknown_method(side.interface))
        await self._each(MALFORMED, lambda side: requests.malformed(side.interface))
        await self._each("wrong version", lambda side: requests.wrong_version(side.interface))
        await self._each("wrong content type", lambda side: requests.wrong_content_type(side.interface))

    async def _about_task(
        self, name: str, build: Callable[[Interface, str], OperationRequest], *, asked: bool = False
    ) -> list[WireAnswer]:
        if not all(side.task for side in self.sides):
            return []
        return await self._each(name, lambda side: build(side.interface, side.task), asked=asked)

    async def _each(
        self, name: str, build: Callable[[Side], OperationRequest | None], *, asked: bool = False, card: bool = False
    ) -> list[WireAnswer]:
        """Send a request on every side and compare the answers."""
        self.progress(f"{self.interface}: {name}")
        built = [build(side) for side in self.sides]
        sent = [side.sender.answer(one) for side, one in zip(self.sides, built, strict=True) if one is not None]
        if not sent:
            return []
        answers = await asyncio.gather(*sent)
        compared = [without_addresses(answer, self.interface.binding) for answer in answers] if card else answers
        direct, again, proxied = compared
        self.calls_seen = self.calls_seen or (asked and names_calls(direct))
        noise = {delta.what for delta in compare(direct, again, self._again, asked=asked)}
        deltas = compare(direct, proxied, self._proxied, asked=asked)
        if name.endswith("push configuration") or (name == MALFORMED and refuses_push(proxied)):
            self.push_refused = self.push_refused or refuses_push(proxied)
            deltas = [replace(delta, design=PUSH_REFUSED) for delta in deltas] if self.push_refused else deltas
        if card:
            deltas = list(with_design(deltas, changed=_cards_in(answers[0]) != _cards_in(answers[2])))
        varies = sorted({delta.what for delta in deltas if _varies(delta.what, noise)})
        kept = [delta for delta in deltas if delta.what not in varies]
        self.done.append(OperationComparison(str(self.interface), name, kept, varies))
        return answers


def _send(
    side: Side,
    text: str,
    operation: Operation = Operation.SEND,
    activation: Activation = Activation.NOTHING,
    configuration: Mapping[str, Any] | None = None,
) -> OperationRequest:
    return requests.send(side.interface, operation, text, str(uuid.uuid4()), activation, configuration=configuration)


def _varies(what: str, noise: set[str]) -> bool:
    """Whether two direct answers differ there, too, or in the number of events, which shifts them."""
    return what in noise or (what.startswith("event ") and "events" in noise)


def _cards_in(answer: WireAnswer) -> list[Any]:
    """The card in the answer, without signatures."""
    values = (message.value for message in answer.messages)
    return [unsigned(value.get("result", value)) for value in values if isinstance(value, dict)]


CARD = "agent card"
MALFORMED = "malformed body"  # may set a webhook for all that a proxy can tell


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Every comparison, in order. `notes` say what was not compared."""

    agent: str
    url: str
    via: str
    messages: tuple[str, ...]
    comparisons: tuple[OperationComparison, ...]
    notes: tuple[str, ...]

    @property
    def differences(self) -> int:
        """The number of differences that are not by design."""
        return sum(len(one.faults) for one in self.comparisons)

    @property
    def passed(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return not self.differences and any(one.interface and one.operation for one in self.comparisons)


async def compare_sides(
    url: str, via: str, client: ProbeClient, messages: Sequence[str], progress: Progress
) -> ComparisonReport:
    """Compare the agent at `url` with what the proxy at `via` shows. `client` fetches the cards; each
    side has a client of its own, with the same headers, time limit and TLS.

    Raises AgentUnreachableError, AgentError (no card), or ConfigError if `via` is no proxy of this agent.
    """
    _check_addresses(url, via)
    progress(CARD)
    direct_seen, interfaces, left = await interfaces_of(client, url)
    proxied_seen, others, _ = await interfaces_of(client, via)
    direct, proxied = direct_seen.card, proxied_seen.card
    if direct.get("name") != proxied.get("name") and not (direct_seen.missing or proxied_seen.missing):
        names = f"its card names {proxied.get('name')!r}, that of {url} names {direct.get('name')!r}"
        raise ConfigError(f"--via {via} is a proxy of another agent: {names}")
    texts = tuple(messages or [*skill_examples(direct)[:1], FALLBACK_MESSAGE][:1])
    async with AsyncExitStack() as stack:
        senders = [
            await stack.enter_async_context(
                AgentTransport(
                    client.headers,
                    client.timeout_s,
                    client.tls,
                    grpc_tls=base.startswith(("https://", "grpcs://")),
                )
            )
            for base in (url, url, via)
        ]
        done = [] if is_grpc(url) or is_grpc(via) else await _cards(senders, (url, url, via), direct, proxied)
        notes = [f"{one.interface}: {one.reason}" for one in left]
        done += [OperationComparison(name, "", [delta]) for name, delta in interface_deltas(interfaces, others)]
        no_calls_seen, push_refused = bool(declared_extensions(direct)), False
        for interface, other in interface_pairs(interfaces, others):
            if other is None:
                continue
            first, again, last = map(Side, senders, (interface, interface, other))
            walk = InterfaceComparison(interface, (first, again, last), progress)
            done += await walk.run(texts, streams=offers_streaming(direct), pushes=offers_push(direct))
            if walk.unreachable:
                notes.append(f"{interface}: the agent does not answer at {interface.url}: {walk.unreachable}")
            no_calls_seen = no_calls_seen and not walk.calls_seen
            push_refused = push_refused or walk.push_refused
    if push_refused:
        for one in done:
            one.deltas = [name_refusal(delta) for delta in one.deltas]
    if no_calls_seen:
        notes.append("no answer had tool calls: give a message that makes the agent call a tool (--message)")
    return ComparisonReport(str(direct.get("name", "")), url, via, texts, tuple(done), tuple(notes))


async def _cards(
    senders: Sequence[AgentTransport], bases: Sequence[str], direct: dict[str, Any], proxied: dict[str, Any]
) -> list[OperationComparison]:
    """The card at each of its well-known paths, with its headers."""
    changed = unsigned(direct) != unsigned(proxied)
    done = []
    for path in sorted(WELL_KNOWN_PATHS):
        answers: list[WireAnswer] = []
        for sender, base in zip(senders, bases, strict=True):
            request = ProbeRequest("GET", base.rstrip("/") + path, (("Accept", "application/json"),))
            answers.append(without_addresses(await sender.answer(request), None))
        noise = {delta.what for delta in compare(answers[0], answers[1], IdPairing())}
        deltas = list(with_design(compare(answers[0], answers[2], IdPairing()), changed))
        varies = sorted({delta.what for delta in deltas if delta.what in noise})
        done.append(
            OperationComparison("", f"{CARD} {path}", [one for one in deltas if one.what not in varies], varies)
        )
    done[0].deltas += signatures_kept(direct, proxied, changed)
    return done


def _check_addresses(url: str, via: str) -> None:
    """Raises ConfigError for addresses that cannot be compared."""
    if not _is_address(url) or not _is_address(via):
        raise ConfigError("--via compares the URL of an agent with that of its proxy: expected http or grpc URLs")
    if is_grpc(via) and not is_grpc(url):
        raise ConfigError(
            f"--via {via} has no agent card: expected the http URL of the proxy, whose card names its gRPC"
        )
    if url.rstrip("/") == via.rstrip("/"):
        raise ConfigError(f"--via {via} is the URL of the agent itself; expected the URL of its proxy")


def _is_address(url: str) -> bool:
    return url.startswith(("http://", "https://")) or is_grpc(url)
