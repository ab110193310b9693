"""Calls that show how an agent serves gRPC: errors, metadata, the extended card, cancelled streams."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import replace
from importlib.util import find_spec

from a2a_tool_capture.client import AgentUnreachableError, ConfigurationError
from a2a_tool_capture.errors import connection_problem

from ...protocol.operations import Binding, Operation
from . import requests
from .client import ProbeClient
from .record import (
    UNKNOWN_URIS,
    Activation,
    CardSeen,
    GrpcSeen,
    GrpcTrial,
    Interface,
    OperationRequest,
    ProbeExchange,
    ProbeTurn,
    ResponseEvent,
)
from .responses import first_task_id, shows_end, task_id_of

GRPC_MISSING = "gRPC needs grpcio: pip install 'a2a-eval-proxy[grpc]'"
UNKNOWN_VERSION = "99.0"
UNKNOWN_METADATA = (("x-check-unknown", "one"), ("x-check-unknown", "two"))

_SCHEMES = ("grpc://", "grpcs://")
_VERSIONS = ("1.0", "0.3")


def is_grpc(url: str) -> bool:
    """Whether the URL is that of an agent that has only gRPC."""
    return url.startswith(_SCHEMES)


async def card_over_grpc(client: ProbeClient, url: str) -> tuple[CardSeen, list[Interface]]:
    """Returns the extended card of an agent without an HTTP port, and an interface for each service that it has.

    Without a card, a stand-in offers streaming. Raises AgentUnreachableError, or ConfigurationError without grpcio.
    """
    if find_spec("grpc") is None:
        raise ConfigurationError(f"{url}: {GRPC_MISSING}")
    found: CardSeen | None = None
    interfaces = []
    for version in _VERSIONS:
        interface = Interface(Binding.GRPC, version, url)
        unknown = (await first_trials(client, interface))[GrpcTrial.UNKNOWN_TASK]
        if unknown.status == 0:
            raise AgentUnreachableError(f"{url}: {connection_problem(unknown.problem, url)}")
        if unknown.is_unimplemented:
            continue
        interfaces.append(interface)
        answer = await client.exchange(requests.extended_card(interface))
        if found is None and not answer.problem and answer.events:
            card = answer.events[0].raw
            found = CardSeen(answer.request, card, body=json.dumps(card).encode())
    if found is None:
        stand_in = {"name": url, "capabilities": {"streaming": True}}
        found = CardSeen(requests.extended_card(Interface(Binding.GRPC, "1.0", url)), stand_in, missing=True)
    return found, interfaces or [Interface(Binding.GRPC, "1.0", url)]


async def first_trials(client: ProbeClient, interface: Interface) -> dict[GrpcTrial, ProbeExchange]:
    """Ask for a task that does not exist; if the service does not exist either, also ask that of the other version."""
    unknown = requests.get(interface, f"no-such-task-{uuid.uuid4().hex}")
    trials = {GrpcTrial.UNKNOWN_TASK: await client.exchange(unknown)}
    if trials[GrpcTrial.UNKNOWN_TASK].is_unimplemented:
        other = replace(interface, version="1.0" if interface.legacy else "0.3")
        trials[GrpcTrial.OTHER_SERVICE] = await client.exchange(requests.get(other, "none"))
    return trials


async def all_trials(client: ProbeClient, seen: GrpcSeen) -> GrpcSeen:
    """Returns `seen` with the other trials; those of a task need one that the conversation has shown."""
    if not seen.served or seen.trials[GrpcTrial.UNKNOWN_TASK].status == 0:
        return seen
    interface, trials = seen.interface, dict(seen.trials)
    trials[GrpcTrial.EXTENDED_CARD] = await client.exchange(requests.extended_card(interface))
    turn = _turn_with_task(seen)
    if turn is not None:
        for trial, request in _requests_for(interface, first_task_id(turn.opening)).items():
            if trial is not GrpcTrial.SUBSCRIBE or seen.conversation.streams:
                trials[trial] = await client.exchange(request)
        if seen.conversation.streams:
            trials |= await _abandoned_stream(client, interface, turn.message)
    return replace(seen, trials=trials)


def _turn_with_task(seen: GrpcSeen) -> ProbeTurn | None:
    """The last message that activated version 1 and began a task, its task finished if there is such a one."""
    turns = [
        turn
        for turn in seen.conversation.turns
        if turn.activation is Activation.V1 and turn.opening.operation is Operation.SEND and first_task_id(turn.opening)
    ]
    finished = [turn for turn in turns if shows_end(*turn.exchanges, *turn.resumed)]
    return next(reversed(finished or turns), None)


def _requests_for(interface: Interface, task_id: str) -> dict[GrpcTrial, OperationRequest]:
    """The calls about a task, CancelTask last."""
    get = requests.get(interface, task_id)
    name = interface.extensions_header.lower()
    others = tuple(item for item in get.headers if item[0] != name)
    asked = requests.get(interface, task_id, Activation.V1)
    lists = [value for key, value in asked.headers if key == name]
    repeated = ((name, UNKNOWN_URIS[0]), *((name, value) for value in lists))
    calls = {
        GrpcTrial.UNKNOWN_METADATA: replace(get, headers=(*get.headers, *UNKNOWN_METADATA)),
        GrpcTrial.REPEATED_EXTENSIONS: replace(asked, headers=(*others, *repeated)),
        GrpcTrial.SUBSCRIBE: requests.subscribe(interface, task_id),
        GrpcTrial.CANCEL: requests.cancel(interface, task_id),
    }
    if not interface.legacy:
        calls[GrpcTrial.UNKNOWN_VERSION] = requests.with_version(get, UNKNOWN_VERSION)
    return calls


async def _abandoned_stream(client: ProbeClient, interface: Interface, message: str) -> dict[GrpcTrial, ProbeExchange]:
    """Cancel a stream after the first event that names its task, then read the task."""
    request = requests.send(interface, Operation.STREAM, message, uuid.uuid4().hex)
    named: list[ResponseEvent] = []

    def take(event: ResponseEvent) -> None:
        if not named and event.normal is not None and task_id_of(event.normal):
            named.append(event)
            stream.cancel()

    stream = asyncio.create_task(client.exchange(request, take))
    await asyncio.wait([stream])
    if not named:
        return {GrpcTrial.ABANDONED_STREAM: stream.result()}
    (event,) = named
    opening = ProbeExchange(request, 200, events=(event,))
    read = requests.get(interface, task_id_of(event.normal or {}))
    return {
        GrpcTrial.ABANDONED_STREAM: opening,
        GrpcTrial.AFTER_ABANDONED_STREAM: await client.exchange(read),
    }
