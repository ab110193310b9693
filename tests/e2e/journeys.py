"""What the clients do, over which routes, and what has to come out: the matrix of the client tests."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from agents.scenarios import RESUMED, SCENARIOS, Call, Scenario
from support.recordings import anonymous


@dataclass(frozen=True)
class Route:
    """A client, the protocol it speaks, and the agent it speaks to."""

    client: str
    version: str
    binding: str
    agent: str = "v1"

    def __str__(self) -> str:
        return f"{self.client}/{self.version}/{self.binding}->{self.agent}"


ROUTES = [
    *(Route(client, "1.0", binding) for client in ("python-1", "javascript-1") for binding in ("JSONRPC", "HTTP+JSON")),
    Route("python-1", "1.0", "GRPC", "v1-grpc"),
    Route("python-1", "0.3", "HTTP+JSON"),
    *(Route("python-0.3", "0.3", binding, "v0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")),
    Route("python-0.3", "0.3", "JSONRPC"),
]


@dataclass(frozen=True)
class Outcome:
    """What one turn must look like."""

    user_text: str
    response_text: str
    state: str | None
    calls: tuple[Call, ...]
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journey:
    """One job for a client. `token` makes its texts unique, and so its turns."""

    action: str
    scenario: str
    ask: str = "no"
    token: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __str__(self) -> str:
        return f"{self.action}-{self.scenario}-ask:{self.ask}"

    @property
    def text(self) -> str:
        return f"{self.scenario} {self.token}"

    @property
    def fails(self) -> bool:
        """Whether the agent answers with an error, or not to the end."""
        return self.scenario in ("error", "cut")

    @property
    def reply(self) -> str:
        return f"Ada {self.token}"

    def again(self) -> Journey:
        """The same journey with texts of its own."""
        return Journey(self.action, self.scenario, self.ask)

    def job(self, route: Route, base: str, control: str) -> dict[str, Any]:
        return {
            "base": base,
            "binding": route.binding,
            "version": route.version,
            "action": self.action,
            "text": self.text,
            "reply": self.reply,
            "ask": self.ask,
            "control": control,
            "gate": self.token,
        }

    def outcomes(self, route: Route) -> list[Outcome]:
        """The turns this journey leaves behind."""
        if self.fails or self.action == "extended-card":
            return []
        scenario = SCENARIOS[self.scenario]
        if self.action == "cancel":
            return [Outcome(self.text, "canceled by client", "canceled", ())]
        streamed = self.action in ("stream", "resume", "subscribe")
        first = _outcome(scenario, self.text, streamed=streamed, v03_server=route.agent == "v0.3")
        return [first, _outcome(RESUMED, self.reply, streamed=True)] if self.action == "resume" else [first]


def _outcome(scenario: Scenario, text: str, *, streamed: bool, v03_server: bool = False) -> Outcome:
    return Outcome(
        user_text=text,
        response_text=scenario.text.replace("{text}", text),
        state=scenario.state if scenario is not SCENARIOS["message"] else None,
        calls=scenario.expected_calls(streamed=streamed, v03_server=v03_server),
        findings=scenario.findings if streamed else (),
    )


STREAMED = (
    *("artifact", "chunks", "chunks-late", "chunks-repeat", "split", "multi"),
    *("snapshot", "snapshot-drops", "fail", "message"),
)
SENT = ("artifact", "multi", "snapshot", "fail", "message")

JOURNEYS = [
    *(Journey("stream", scenario) for scenario in STREAMED),
    *(Journey("send", scenario) for scenario in SENT),
    *(Journey(action, "long") for action in ("poll", "subscribe", "cancel")),
    Journey("resume", "ask"),
    *(Journey("stream", scenario, "header") for scenario in ("artifact", "chunks-late", "split")),
    Journey("send", "multi", "header"),
    Journey("poll", "long", "header"),
    Journey("resume", "ask", "header"),
    Journey("list", "artifact"),
    Journey("list", "artifact", "header"),
    Journey("extended-card", "none"),
    *(Journey(action, scenario) for action in ("stream", "send") for scenario in ("error", "cut")),
]


def journeys(route: Route) -> list[Journey]:
    """What its client can do, and its agent: one of 0.3 closes a subscription over gRPC before its last events."""
    return [
        journey
        for journey in JOURNEYS
        if not (route.client == "python-0.3" and journey.action == "stream" and "snapshot" in journey.scenario)
        and not (route.version == "0.3" and journey.action == "list")
        and not (route.binding == "GRPC" and (journey.fails or journey.action in ("extended-card", "subscribe")))
    ]


def comparable(answer: dict[str, Any], base: str) -> Any:
    """A driver's answer with ids numbered, times blanked, and the agent's URL replaced."""
    text = json.dumps(_without_grpc(answer), sort_keys=True, ensure_ascii=False)
    return json.loads(anonymous(text.replace(base, "http://agent")))


def _without_grpc(value: Any) -> Any:
    """Cards without their gRPC interfaces, which an HTTP proxy cannot carry and leaves out."""
    if isinstance(value, dict):
        return {key: _without_grpc(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_grpc(item) for item in value if not _is_grpc(item)]
    return value


def _is_grpc(item: Any) -> bool:
    return isinstance(item, dict) and "GRPC" in (item.get("protocolBinding"), item.get("transport"))
