"""`run`: drive an agent with the cases of a suite as an A2A client, score every turn, pass or fail."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.client import AgentUnreachable, CaptureClient, CapturedTurn, CaptureError
from tool_call_evaluators.gates import Outcome, Verdict, gate
from tool_call_evaluators.suite import Case, Suite

from .capture.turn import Turn
from .cases import CaseBook
from .events import EventBus
from .ids import new_turn_id
from .metrics import Metrics
from .pipeline import Pipeline
from .scoring import Scorer, results_of
from .store import open_store

CONCURRENCY = 4
"""Conversations at once."""


class NothingRanError(Exception):
    """The agent could not be reached by any case; the message says why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One turn of the plan; `turn_id` is None where it never came about."""

    case: Case
    repetition: int
    index: int
    turn_id: str | None

    @property
    def conversation(self) -> str:
        return self.case.id if self.case.repetitions == 1 else f"{self.case.id} #{self.repetition + 1}"

    @property
    def where(self) -> str:
        return self.conversation if len(self.case.turns) == 1 else f"{self.conversation}, turn {self.index + 1}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run: its name, the turns in the order of the suite, and the verdict."""

    run: str
    turns: list[dict[str, Any]]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent is talked to; see CaptureClient."""

    url: str
    headers: dict[str, str]
    binding: str | None = None
    streaming: bool | None = None
    timeout_s: float = 300.0
    dialects: tuple[str, ...] = ()


async def run_suite(
    suite: Suite, agent: AgentOptions, store: str, run: str, advanced: Callable[[Case], None] = lambda case: None
) -> RunResult:
    """Run every case and score it; `advanced` is called after each turn.

    Raises AgentUnreachable or CaptureError where the agent's card cannot be had, NothingRanError where no turn was
    answered, StoreError for the store. What goes wrong within a case is a finding of its turn, and turns that
    never came about fail the gate.
    """
    kept = open_store(store)
    cases = CaseBook(suite)
    pipeline = Pipeline(kept, cases, Scorer(cases, suite), EventBus(), Metrics())
    try:
        async with CaptureClient(
            agent.url,
            headers=agent.headers,
            binding=agent.binding,
            streaming=agent.streaming,
            timeout_s=agent.timeout_s,
            dialects=agent.dialects,
        ) as client:
            driver = _Driver(client, pipeline, run, advanced)
            plan = await driver.drive(suite)
        if not driver.answered and driver.problems:
            raise NothingRanError(driver.problems[0])
        await pipeline.drained()
        turns = [turn for planned in plan if planned.turn_id and (turn := await kept.turn(planned.turn_id))]
    finally:
        await pipeline.close()
        await asyncio.to_thread(kept.close)
    return RunResult(run, turns, judge(suite, plan, turns))


def judge(suite: Suite, plan: list[Planned], turns: list[dict[str, Any]]) -> Verdict:
    """Hold the turns of a run against the suite's gates. Fails closed: a planned turn without a turn counts."""
    by_id = {turn["turn_id"]: turn for turn in turns}
    outcomes = [
        Outcome(
            planned.where,
            planned.conversation,
            results_of(by_id[planned.turn_id]) if planned.turn_id in by_id else None,
        )
        for planned in plan
    ]
    metrics = [evaluator.metric for evaluator in suite.build_evaluators()]
    return gate(outcomes, metrics=metrics, gates=suite.gates, tolerate=suite.tolerate)


class _Driver:
    def __init__(self, client: CaptureClient, pipeline: Pipeline, run: str, advanced: Callable[[Case], None]) -> None:
        self._client = client
        self._pipeline = pipeline
        self._run = run
        self._advanced = advanced
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self.answered = 0
        self.problems: list[str] = []

    async def drive(self, suite: Suite) -> list[Planned]:
        """Have every conversation; what became of each planned turn, in the order of the suite."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._converse(case, repetition))
                for case in suite.cases
                for repetition in range(case.repetitions)
            ]
        return [planned for task in tasks for planned in task.result()]

    async def _converse(self, case: Case, repetition: int) -> list[Planned]:
        plan: list[Planned] = []
        async with self._slots:
            conversation = self._client.conversation()
            own_id = f"{self._run}/{case.id}/{uuid.uuid4().hex}"  # for agents that give their conversations no id
            broken = False
            for index, planned_turn in enumerate(case.turns):
                turn_id = None
                if not broken:
                    turn, broken = await self._say(conversation.send(planned_turn.user), case)
                    if turn is not None:
                        turn.conversation_id = turn.conversation_id or own_id
                        turn_id = turn.turn_id
                        self._pipeline.take(turn)
                plan.append(Planned(case, repetition, index, turn_id))
                self._advanced(case)
        return plan

    async def _say(self, sending: Any, case: Case) -> tuple[Turn | None, bool]:
        """The turn that a message led to, if any; and whether the conversation cannot go on."""
        try:
            captured = await sending
        except CaptureError as error:
            self.problems.append(str(error))
            if error.turn is None or (isinstance(error, AgentUnreachable) and error.turn.first_event_at is None):
                return None, True
            code = "agent_unreachable" if isinstance(error, AgentUnreachable) else "agent_error"
            turn = self._turn(error.turn, case)
            turn.findings.append(Finding(code, str(error), Severity.ERROR))
            return turn, True
        self.answered += 1
        return self._turn(captured, case), False

    def _turn(self, captured: CapturedTurn, case: Case) -> Turn:
        turn = Turn(
            turn_id=new_turn_id(),
            run=self._run,
            agent=self._client.url,
            binding=captured.binding,
            protocol_version=".".join(captured.protocol_version.split(".")[:2]),
            started_at=captured.started_at.timestamp(),
            case_id=case.id,
            conversation_id=captured.context_id,
            task_id=captured.task_id,
            state=captured.state,
            status="pending",
            user_text=captured.user_text,
            response_text=captured.text,
            first_event_at=_seconds(captured.first_event_at),
            ended_at=captured.ended_at.timestamp(),
            tool_calls=list(captured.tool_calls),
            findings=list(captured.findings),
        )
        turn.capture.declared = captured.declared
        turn.capture.requested_by_client = True
        turn.capture.protocol_only = len(turn.tool_calls)
        return turn


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
