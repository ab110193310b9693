"""How each agent behind the proxy does: whether it answers, what its card declares, where its tool calls are seen, how
its last turns ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from a2a_tool_capture.errors import connection_problem
from tool_call_evaluators.texts import one_line, printable
from tool_call_evaluators.visibility import Calls

from ..grpc_relay.agent import card_of
from ..net.file_watcher import FileWatch
from ..net.http_client import UpstreamError
from ..protocol.agent_card import bindings_of, declared_uris
from ..relay.upstream import Upstream
from ..scoring.agent_scoring import Scoring
from ..settings.parts import AgentSettings
from ..store import Store, StoreError, TurnQuery
from ..store.base import TurnJson

CARD_ERRORS = (UpstreamError, ValueError, TimeoutError, RecursionError)  # what `Upstream.fetch_card` raises
_MAX_TEXT = 200
_FRESH_S, _AGAIN_S = 10.0, 5.0  # when the card is read again; the second, where it could not be read
_OLD_S = 30.0  # for so long, a status may be shown before it is read again
_WAIT_S = 0.3


@dataclass(frozen=True, slots=True)
class CardStatus:
    """`level` is `ok`, `warning` (tool calls are not all visible) or `error` (the agent or its card cannot be reached).

    `text` says what can be seen, or why nothing can; `repair` what to do about it, empty if nothing needs to be done.
    """

    url: str
    level: Literal["ok", "warning", "error"]
    text: str
    repair: str = ""
    name: str = ""  # "" as long as no card was read
    bindings: str = ""
    extension: Literal["negotiated", "declared", "not declared", "unknown"] = "unknown"
    """`negotiated`: declared by the card, or not, the agent is asked for tool calls; `unknown` without a card."""
    reachable: bool = True

    @property
    def line(self) -> str:
        """What `serve` says of the agent at its start."""
        line = f"agent {self.name}: {self.bindings}; {self.text}" if self.name else self.text
        return line if self.level == "ok" else f"warning: {line}"


def unreachable(settings: AgentSettings, error: Exception) -> CardStatus:
    """The status of an agent whose card cannot be read."""
    if isinstance(error, UpstreamError | TimeoutError):
        why = _short(connection_problem(error, settings.upstream) if str(error) else "it does not respond")
        text = f"agent {settings.upstream} is unreachable, and requests fail until it is up: {why}"
        return CardStatus(settings.upstream, "error", text, "Start the agent, or correct --upstream.", reachable=False)
    asked = "asked for tool calls all the same" if settings.negotiate == "always" else "not asked for tool calls"
    text = f"{_short(str(error))}: clients find no card, and the agent is {asked}"
    repair = "Serve the agent card, name its path with --card-path, or set --negotiate always."
    return CardStatus(settings.upstream, "error", text, repair)


def status_of(card: Any, settings: AgentSettings, traces: str | None) -> CardStatus:
    """The status of an agent with this card. `traces` is where the proxy receives traces, if it does."""
    fields = card if isinstance(card, dict) else {}
    declared = bool(declared_uris(card))
    level, text, repair = _seen(declared, settings, traces)
    asked = settings.negotiate == "always" or (declared and settings.negotiate == "declared")
    return CardStatus(
        settings.upstream,
        level,
        text,
        repair,
        name=_short(str(fields.get("name") or "without a name")),
        bindings=_short(", ".join(bindings_of(card)) or "no binding"),
        extension="negotiated" if asked else "declared" if declared else "not declared",
    )


_DECLARE = "Declare the extension in the agent (`a2a-eval-proxy doctor URL` prints the lines)"
_ASK = "Set --negotiate declared"
_TRACE = "have the agent send OpenTelemetry traces to the proxy (--otlp)"


def _seen(declared: bool, settings: AgentSettings, traces: str | None) -> tuple[Literal["ok", "warning"], str, str]:
    seen = "declares tool-call-capture" if declared else "does not declare tool-call-capture"
    if declared and settings.negotiate != "never":
        return "ok", f"{seen}: its tool calls are captured", ""
    if settings.negotiate == "always":
        return "ok", f"{seen}, and is asked for tool calls all the same (negotiate: always)", ""
    repair = f"{_ASK if declared else _DECLARE}"
    if declared:
        seen += ", but is not asked for tool calls (negotiate: never)"
    elsewhere = [f"from messages ({', '.join(settings.dialects)})"] if settings.dialects else []
    if traces:
        elsewhere.append(f"from traces that it sends to {traces}")
    if settings.dialects:
        return "ok", f"{seen}: its tool calls are captured {' and '.join(elsewhere)}", ""
    if elsewhere:
        return "warning", f"{seen}: its tool calls are captured only {elsewhere[0]}", f"{repair} to see all of them."
    return "warning", f"{seen}, and no traces are received: its tool calls are not visible", f"{repair}, or {_TRACE}."


def _short(text: str) -> str:
    return one_line(printable(text), _MAX_TEXT)


class AgentWatch:
    """Reads the agent's card when the status is requested, at most every `_FRESH_S`."""

    def __init__(self, settings: AgentSettings, files: FileWatch, traces: str | None) -> None:
        self._settings = settings
        self._traces = traces
        self._upstream = Upstream(settings, files)
        self._fetch_card = card_of(settings, self._upstream, files)
        self._last = CardStatus(settings.upstream, "ok", "its card is being read")
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def status(self, *, wait: bool = True) -> CardStatus:
        """The status as last read; with `wait` or if that was long ago, as it is now if the agent answers at once."""
        fresh_s = _AGAIN_S if self._last.level == "error" else _FRESH_S
        if self._reading is None and time.monotonic() - self._read_at >= fresh_s:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        if self._reading is not None and (wait or time.monotonic() - self._read_at >= _OLD_S):
            await asyncio.wait({self._reading}, timeout=_WAIT_S)
        return self._last

    async def report(self, write: Callable[[str], None]) -> None:
        """Write the agent's line as soon as its card can be read, and before that, once, why it cannot."""
        warned = False
        while not (status := await self.status()).name:
            if status.level == "error" and not warned:
                write(status.line)
                warned = True
            await asyncio.sleep(_WAIT_S)
        write(status.line)

    async def _read(self) -> None:
        try:
            card = await self._fetch_card()
            self._last = status_of(card, self._settings, self._traces)
        except CARD_ERRORS as error:
            self._last = unreachable(self._settings, error)
        finally:
            self._read_at = time.monotonic()
            self._reading = None

    def close(self) -> None:
        """Stop reading, and close the connections to the agent."""
        if self._reading is not None:
            self._reading.cancel()
        self._upstream.http.close()


Health = Literal["unreachable", "no card", "failing", "failed lately", "calls not visible", "ok", "no turns"]
FAILS_NOW: tuple[Health, ...] = ("unreachable", "no card", "failing")
_ORDER: tuple[Health, ...] = (*FAILS_NOW, "failed lately", "calls not visible", "no turns", "ok")

KEPT = 20
"""The newest turns of an agent that say how it does."""


async def recent_turns(store: Store, agent: str) -> list[TurnJson]:
    """Summaries of the newest scored turns of an agent ("": of all), newest first; [] while the store is away, as pages
    say."""
    newest = TurnQuery(agent=agent or None, status="done", limit=KEPT, newest_first=True, summary=True)
    try:
        found = await store.turns(newest)
    except StoreError:
        return []
    return sorted(found.items, key=lambda turn: str(turn["started_at"]), reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    name: str
    """"" for the only one."""
    status: CardStatus
    address: str
    """Where clients reach it through the proxy; "" without traffic."""
    run: str
    scoring: Scoring
    traces: bool | None
    """Whether spans of its turns have come; None where the proxy receives none."""
    open_turns: int | None
    queue_depth: int | None
    """Turns that wait to be scored. Both None without traffic."""
    turns: Sequence[TurnJson]
    """Summaries, the newest first, at most KEPT."""

    @property
    def health(self) -> Health:
        if self.status.level == "error":
            return "no card" if self.status.reachable else "unreachable"
        if self.turns and self.turns[0]["verdict"] in ("failed", "errored"):
            return "failing"
        if self.failed:
            return "failed lately"
        if self.status.level == "warning" and (self.unseen or not self.turns):
            return "calls not visible"
        return "ok" if self.turns else "no turns"

    @property
    def failed(self) -> int:
        """How many of `turns` failed, or could not be scored."""
        return sum(turn["verdict"] in ("failed", "errored") for turn in self.turns)

    @property
    def unseen(self) -> int:
        """How many of `turns` may have tool calls that are not visible."""
        return sum(turn["calls"] == Calls.UNKNOWN for turn in self.turns)

    @property
    def why(self) -> str:
        """What its health is due to, in words; "" if nothing is wrong."""
        match self.health:
            case "unreachable" | "no card":
                return self.status.text
            case "failing":
                return f"its last turn {self.turns[0]['verdict']}" + (
                    f", as did {self.failed} of the last {len(self.turns)}" if self.failed > 1 else ""
                )
            case "failed lately":
                return f"{self.failed} of its last {len(self.turns)} turns failed"
            case "calls not visible":
                return self.status.text
        return ""

    def to_dict(self) -> dict[str, Any]:
        """As in /api/agents."""
        status, last = self.status, next(iter(self.turns), None)
        suite = self.scoring.suite
        return {
            "name": self.name or None,
            "url": self.address,
            "upstream": status.url,
            "health": self.health,
            "why": self.why,
            "repair": status.repair,
            "card": {"name": status.name, "bindings": status.bindings} if status.name else None,
            "extension": status.extension,
            "calls": status.text,
            "traces": self.traces,
            "run": self.run,
            "suite": suite.name if suite else None,
            "suite_file": self.scoring.suite_file,
            "open_turns": self.open_turns,
            "queue_depth": self.queue_depth,
            "recent": {"turns": len(self.turns), "failed": self.failed, "calls_not_visible": self.unseen},
            "last_turn": last and {name: last[name] for name in ("turn_id", "started_at", "verdict")},
        }


def failing_first(reports: Iterable[AgentStatus]) -> list[AgentStatus]:
    return sorted(reports, key=lambda report: (_ORDER.index(report.health), report.name))
