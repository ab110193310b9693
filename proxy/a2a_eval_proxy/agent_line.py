"""What captures the turns of one agent, stores and scores them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from .admin.agent_status import AgentWatch
from .body_memory import BodyMemory
from .capture.visibility import CallVisibility
from .memory import share
from .net.file_watcher import FileWatch
from .otlp.trace_service import Tracing
from .relay.opted_in_tasks import Callers
from .relay.webhooks import WebhookPort
from .scoring.agent_scoring import Scoring, judge_budget
from .scoring.pipeline import QUEUE_BYTES, Pipeline
from .serving.agent_capture import AgentCapture
from .serving.agent_traffic import AgentTraffic
from .settings.settings import Agent
from .store import Store
from .telemetry.counters import Metrics
from .telemetry.event_bus import EventBus
from .telemetry.turn_events import TurnEvents
from .telemetry.turn_listener import TurnListener

if TYPE_CHECKING:
    from .telemetry.provider import Telemetry


class AgentLine:
    """Captures the turns of one agent, stores and scores them. All its parts share one event loop."""

    def __init__(
        self,
        agent: Agent,
        scoring: Scoring,
        *,
        parts: int,
        store: Store,
        metrics: Metrics,
        bus: EventBus,
        files: FileWatch,
        bodies: BodyMemory,
        callers: Callers,
        tracing: Tracing | None,
        telemetry: Telemetry | None,
        listeners: Sequence[TurnListener],
        traces_at: str | None,
        webhooks: WebhookPort | None,
        keeps_open_turns: bool,
    ) -> None:
        """`scoring` is that of the agent, what follows that of all. `parts`: into how many the limits of memory are
        divided, but for that of `bodies`. `traces_at`: where traces are received. Reads the files of TLS. Raises
        ConfigError."""
        settings, name, privacy = agent.settings, agent.name or None, scoring.privacy
        self.agent = agent
        self.scoring = scoring
        self.status = AgentWatch(settings, files, traces_at)
        budget = judge_budget(settings.judge_budget, agent.name)
        scorer = scoring.scorer(store, budget) if settings.evaluate else None
        self.events = TurnEvents(bus, privacy, scoring.cases.case_of)
        evaluations = None if telemetry is None else telemetry.evaluations
        heard = TurnListener(*listeners, self.events, *filter(None, (tracing, evaluations)))
        if tracing is not None and name is not None:
            tracing.expect(name, wait_s=settings.trace_wait, expected=settings.expect_traces)
        self.pipeline = Pipeline(
            store,
            scoring.cases,
            scorer,
            heard,
            metrics,
            [tracing] if tracing is not None else [],
            privacy,
            agent_name=name,
            memory=QUEUE_BYTES // parts,
        )
        self._webhooks = None if webhooks is None else webhooks.of(agent, store, privacy.identifier)
        visibility = CallVisibility(
            negotiate=settings.negotiate,
            dialects=bool(settings.dialects),
            logs=lambda: tracing is None or not tracing.heard(name),
        )
        self.capture = AgentCapture(
            agent,
            store,
            self.pipeline,
            heard,
            visibility,
            privacy,
            metrics,
            awaits=None if self._webhooks is None else self._webhooks.keeps_open,
            keeps_open_turns=keeps_open_turns,
            parts=parts,
        )
        self.relay = AgentTraffic(
            agent,
            privacy,
            files,
            metrics,
            None if telemetry is None else telemetry.requests_to(settings.upstream),
            self.capture.book,
            self._webhooks,
            bodies,
            wire_bytes=share(32) // parts,
            callers=callers,
        )

    def start(self, stack: AsyncExitStack) -> None:
        """Requests may come; see to what earlier processes left, until `stack` ends."""
        self.capture.start()
        if self._webhooks is not None:
            self._webhooks.start(stack)

    async def settled(self) -> None:
        """Returns when every turn captured so far is done."""
        await self.capture.settled()
        await self.pipeline.drained()

    async def close(self) -> None:
        """What is not scored stays pending."""
        await self.pipeline.close()
        await self.events.close()
