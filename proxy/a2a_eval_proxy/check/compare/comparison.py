"""Compares an agent direct and through a proxy, over every interface of its card."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...protocol.agent_card import WELL_KNOWN_PATHS
from ..probe.answer import WireAnswer
from ..probe.client import ProbeClient
from ..probe.dialogue import FALLBACK_MESSAGE, interfaces_of, skill_examples
from ..probe.grpc_trials import is_grpc
from ..probe.interfaces import declared_extensions, offers_push, offers_streaming
from ..probe.record import ProbeRequest
from ..probe.transport import AgentTransport
from .cards import interface_deltas, interface_pairs, signatures_kept, unsigned, with_design, without_addresses
from .conversation import InterfaceComparison, Progress, Side
from .differences import OperationComparison, compare, name_refusal
from .pairing import IdPairing

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
