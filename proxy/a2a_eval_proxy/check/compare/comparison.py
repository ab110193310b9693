"""Compares an agent direct and through a proxy, over every interface of its card."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...protocol.agent_card import WELL_KNOWN_PATHS
from ..probe.client import ProbeClient
from ..probe.dialogue import FALLBACK_MESSAGE, skill_examples
from ..probe.interfaces import declared_extensions, offers_streaming
from ..probe.record import Interface, ProbeRequest
from .answers import OperationComparison, SideAnswer
from .cards import (
    addresses,
    interface_deltas,
    interface_pairs,
    offered,
    signatures_kept,
    with_design,
    without_addresses,
)
from .conversation import InterfaceComparison, Progress, Side
from .differences import compare
from .pairing import IdPairing
from .requests import Requests
from .sender import Sender

CARD = "agent card"


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


@dataclass(frozen=True, slots=True)
class SideConnection:
    """How to reach the agent and the proxy: headers of every request, seconds of one answer, TLS."""

    headers: Mapping[str, str]
    timeout_s: float
    tls: ssl.SSLContext | None = None


async def compare_agent(
    url: str, via: str, client: ProbeClient, connection: SideConnection, messages: Sequence[str], progress: Progress
) -> ComparisonReport:
    """Compare the agent at `url` with what the proxy at `via` shows. `client` fetches the cards.

    Raises AgentUnreachableError, AgentError (no card), or ConfigError if `via` is no proxy of this agent.
    """
    if not via.startswith(("http://", "https://")) or not url.startswith(("http://", "https://")):
        raise ConfigError("--via compares two http or https URLs: that of the agent and that of its proxy")
    if url.rstrip("/") == via.rstrip("/"):
        raise ConfigError(f"--via {via} is the URL of the agent itself; expected the URL of its proxy")
    progress(CARD)
    direct, proxied = (await client.card(url)).card, (await client.card(via)).card
    if direct.get("name") != proxied.get("name"):
        names = f"its card names {proxied.get('name')!r}, that of {url} names {direct.get('name')!r}"
        raise ConfigError(f"--via {via} is a proxy of another agent: {names}")
    texts = tuple(messages or [*skill_examples(direct)[:1], FALLBACK_MESSAGE][:1])
    async with AsyncExitStack() as stack:
        senders = [
            await stack.enter_async_context(
                Sender(
                    connection.headers,
                    connection.timeout_s,
                    connection.tls,
                    grpc_tls=base.startswith("https://"),
                )
            )
            for base in (url, url, via)
        ]
        done = await _cards(senders, (url, url, via), direct, proxied)
        (interfaces, left), (others, _) = offered(direct), offered(proxied)
        notes = [f"{one.interface}: {one.reason}" for one in left]
        done += [OperationComparison(name, "", [delta]) for name, delta in interface_deltas(interfaces, others)]
        no_calls_seen = bool(declared_extensions(direct))
        for interface, other in interface_pairs(interfaces, others):
            if other is None:
                continue
            walk = _walk(senders, interface, other, progress)
            done += await walk.run(texts, streams=offers_streaming(direct), pushes=_pushes(direct))
            if walk.unreachable:
                notes.append(f"{interface}: the agent does not answer at {interface.url}: {walk.unreachable}")
            no_calls_seen = no_calls_seen and not walk.calls_seen
    if no_calls_seen:
        notes.append("no answer had tool calls: give a message that makes the agent call a tool (--message)")
    return ComparisonReport(str(direct.get("name", "")), url, via, texts, tuple(done), tuple(notes))


def _walk(senders: Sequence[Sender], direct: Interface, proxied: Interface, progress: Progress) -> InterfaceComparison:
    first, again, last = (
        Side(sender, Requests(interface)) for sender, interface in zip(senders, (direct, direct, proxied), strict=True)
    )
    return InterfaceComparison(direct, (first, again, last), progress)


async def _cards(
    senders: Sequence[Sender], bases: Sequence[str], direct: dict[str, Any], proxied: dict[str, Any]
) -> list[OperationComparison]:
    """The card at each of its well-known paths, with its headers."""
    rewritten = addresses(direct) != addresses(proxied)
    done = []
    for path in sorted(WELL_KNOWN_PATHS):
        answers: list[SideAnswer] = []
        for sender, base in zip(senders, bases, strict=True):
            request = ProbeRequest("GET", base.rstrip("/") + path, (("Accept", "application/json"),))
            answers.append(without_addresses(await sender.send(request), None))
        noise = {delta.what for delta in compare(answers[0], answers[1], IdPairing())}
        deltas = list(with_design(compare(answers[0], answers[2], IdPairing()), rewritten))
        varies = sorted({delta.what for delta in deltas if delta.what in noise})
        done.append(
            OperationComparison("", f"{CARD} {path}", [one for one in deltas if one.what not in varies], varies)
        )
    done[0].deltas += signatures_kept(direct, proxied, rewritten)
    return done


def _pushes(card: dict[str, Any]) -> bool:
    capabilities = card.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("pushNotifications") is True
