"""`run`: drive an agent with the cases of a suite as an A2A client, score every turn, pass or fail."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import ssl
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.approvals import Answer, Part
from a2a_tool_capture.card_search import WELL_KNOWN_PATHS
from a2a_tool_capture.client import CaptureClient, CaptureConversation
from a2a_tool_capture.errors import AgentError, AgentUnreachableError, CaptureError
from a2a_tool_capture.models import CapturedTurn
from tool_call_evaluators.attempts import attempt_seed
from tool_call_evaluators.model import EvalResult
from tool_call_evaluators.outcomes.conversations import attempts_at, follow
from tool_call_evaluators.simulation.record import SIMULATED_USER
from tool_call_evaluators.suite import AgentDefaults, Case, Expectation, Suite
from tool_call_evaluators.suite.messages import UserMessage
from tool_call_evaluators.suite.model import combined
from tool_call_evaluators.visibility import AGENT_UNREACHABLE, HISTORY_LOST

from ..capture.captured_exchange import major_minor
from ..capture.visibility import CallVisibility
from ..clock import CLOCK
from ..errors import UNREACHABLE, ConfigError
from ..ids import new_turn_id
from ..otlp.trace_service import Tracing
from ..privacy.policy import NO_PRIVACY, Privacy
from ..protocol.trace_state import naming_turn
from ..scoring.case_book import CaseBook
from ..scoring.pipeline import Pipeline
from ..scoring.scorer import Scorer
from ..settings.store_url import masked_url
from ..store import ConversationKey, ScoredConversation, Store, TurnQuery, every_turn, open_store
from ..telemetry.counters import Metrics
from ..turn import Turn
from .probes import probed
from .run_result import NO_TERMS, Plan, RunResult, RunWatch, Terms, begin, load_and_judge_run
from .served_agents import SEED, ServedAgent, connected, speaks_a2a
from .simulated_users import Conversations, SimulatedUsers, Speaker, planned_turns, users_of
from .stored_turns import conversation_results, unknown_run, without_texts

logger = logging.getLogger(__name__)

CONCURRENCY = 4  # default number of concurrent conversations
TIMEOUT_S = 300.0  # default time limit of a turn
_MAX_WAITING = 200  # turns that may wait for their scores; then the agent is asked no more until they have them
_SERVED_GRACE_S = 10.0
"""How much longer than the time limit the client waits for an agent that this process serves, which reports it."""


class NothingRanError(Exception):
    """No case could reach the agent; the message says why."""

    exit_code = UNREACHABLE


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent is talked to, see CaptureClient; `concurrency` is how many conversations there are at once.

    `url` is also `python:...` or `openai:URL`, see `features.connectors`; `chat` is for the latter. Turns whose
    case names no agent are of `agent_name`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    binding: str | None = None
    streaming: bool | None = None
    timeout_s: float = TIMEOUT_S
    concurrency: int = CONCURRENCY
    dialects: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    chat: AgentDefaults = field(default_factory=AgentDefaults)
    agent_name: str | None = None


def merged_options(
    suite: AgentDefaults,
    given: AgentDefaults,
    dialects: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
) -> AgentOptions:
    """What the suite says of the agent, under what is `given`. Raises ConfigError without a URL."""
    url = given.url or suite.url
    if url is None:
        raise ConfigError(
            "the URL of the agent is missing: give --agent URL, or write `agent: {url: ...}` in the suite"
        )
    streaming = given.streaming if given.streaming is not None else suite.streaming
    return AgentOptions(
        url,
        {**suite.headers, **given.headers},
        given.binding or suite.binding,
        streaming,
        given.timeout or suite.timeout or TIMEOUT_S,
        given.concurrency or suite.concurrency or CONCURRENCY,
        dialects,
        tls,
        AgentDefaults(
            model=given.model or suite.model,
            system=given.system or suite.system,
            body={**suite.body, **given.body},
        ),
    )


def _behind(agent: AgentOptions, name: str | None) -> AgentOptions:
    """That of several agents behind the proxy at the agent's URL; None: the one there. Raises ConfigError."""
    if name is None:
        return agent
    if not agent.url.startswith(("http:", "https:")):
        raise ConfigError(
            f"the suite names the agent {name}, which needs the URL of a proxy with `agents`; got {agent.url}"
        )
    return replace(agent, url=f"{agent.url}/agents/{name}")


async def run_suite(
    suite: Suite,
    agent: AgentOptions,
    location: str,
    run: str,
    *,
    others: Sequence[tuple[Suite, AgentOptions]] = (),
    resume: bool = False,
    repeat_all: bool = False,
    seed: int | None = None,
    agent_version: str | None = None,
    replay_user: str | None = None,
    texts: bool = True,
    privacy: Privacy = NO_PRIVACY,
    partial: bool = False,
    terms: Terms = NO_TERMS,
    watch: RunWatch | None = None,
    tracing: Tracing | None = None,
) -> RunResult:
    """Hold every conversation of the suite with the agent, score the turns, and judge the run.

    `others` are further suites of the run, each with its agent, which follow one after the other. With `resume`,
    conversations that an earlier process completed are skipped; an interrupted one, and one in which the agent could
    not be reached any more, is discarded and run again. With `repeat_all`, all attempts at a case are made, also where
    fewer decide if enough pass. With a `seed`, each attempt has one of its own (`attempt_seed`), which goes to the
    agent and to the simulated user. `agent_version`: in place of that of the agent's card. With `replay_user`,
    simulated users write what they wrote in that run; no model is asked. `watch` counts the turns and may stop the run.
    Memory does not grow with the run; for `texts`, `partial`, `terms` see `load_and_judge_run`. Turns wait for their
    spans in `tracing`. `privacy` applies to everything but what is sent to the agent.

    Raises AgentUnreachableError or CaptureError if the agent's card cannot be read, NothingRanError if there was no
    turn at all, StoreError for the store, ConfigError for a `run` that exists (with `resume`: that does not), and for a
    simulated user without a model or, with `replay_user`, without a record, JudgeNotConfiguredError for a judge without
    a model or key. What goes wrong within a case is a finding of its turn; missing turns fail the gate.
    """
    parts = [(suite, agent), *others]
    whole = combined([part for part, _ in parts])
    for part, its_agent in parts:
        part.check_judges()
        _check_histories(part, its_agent)
    watch, expected = watch or RunWatch(), [privacy.suite(part) for part, _ in parts]
    run = privacy.identifier(run)  # as its turns will have it
    store = open_store(location)
    try:
        watch.store = store.health
        plan = Plan.of_suites(expected, privacy, partial=partial).to_dict()
        await _check_name(run, store, location, plan, resume=resume)
        await begin(store, expected, run, privacy, partial=partial)
        cases = CaseBook(whole, privacy=privacy)
        scorer = Scorer(cases, whole, privacy.judge_cache(store.judge_cache))
        evidence = [tracing] if tracing is not None else []
        pipeline = Pipeline(store, cases, scorer, watch, Metrics(), evidence, privacy)
        try:
            await pipeline.resume(run)
            todo = await _todo(store, privacy.suite(whole), run, repeat_all=repeat_all)
            missing = [{case.id: todo[case.id] for case in part.cases if case.id in todo} for part, _ in parts]
            left = [(*part, own) for part, own in zip(parts, missing, strict=True) if own]
            watch.plan(
                sum(planned_turns(case) * len(own.get(case.id, ())) for _, _, own in left for case in whole.cases)
            )
            users = [await users_of(part, own, store, replay_user, seed) for part, _, own in left]
            driven = _Run(run, store, pipeline, privacy, watch, tracing, repeat_all, seed, agent_version)
            for each, its_users in zip(left, users, strict=True):
                await _drive(driven, *each, its_users)
            await pipeline.drained()
            await store.drained()  # of the records of conversations without turns
        finally:
            await pipeline.close()
        return await load_and_judge_run(
            store, scorer, expected, run, texts=texts, privacy=privacy, partial=partial, terms=terms
        )
    finally:
        await asyncio.to_thread(store.close)


def _check_histories(suite: Suite, agent: AgentOptions) -> None:
    """Raise ConfigError for a history that this agent cannot have."""
    for case in suite.cases:
        if any(turn.answer is not None for turn in case.given.turns) and not agent.url.startswith("openai:"):
            raise ConfigError(
                f"case {case.id!r}: given: only an openai: agent can be told what it has answered, A2A has no message "
                "for that; leave out `answer`: the messages are sent, and the agent answers them"
            )
        if case.given.context_id and not speaks_a2a(agent.url):
            raise ConfigError(
                f"case {case.id!r}: given: an agent that is served by `run` keeps no conversation of a context_id; "
                "write the messages"
            )


async def _check_name(run: str, store: Store, location: str, plan: Mapping[str, Any], *, resume: bool) -> None:
    exists = bool(await store.runs(run))
    if resume and not exists and not await store.conversations(run):  # a conversation without turns is a beginning
        raise ConfigError(f"--resume: {await unknown_run(store, run)}; leave out --resume to begin it")
    if exists and not resume:
        kept = await store.kept_verdict(run)
        ways = "use --resume to continue it, or another --run name"
        if kept is not None and kept.plan != plan:
            ways = "its suite, cases or attempts were others; use another --run name"
        raise ConfigError(f"run {run!r} already exists in {masked_url(location)}; {ways}")


async def _todo(store: Store, suite: Suite, run: str, *, repeat_all: bool) -> dict[str, list[int]]:
    """The numbers of the missing conversations of each case; interrupted ones are discarded."""
    turns = [without_texts(turn) async for turn in every_turn(store, TurnQuery(run=run))]
    conversations = follow(turns, suite)
    cut_off = [
        turn["turn_id"]
        for conversation in conversations
        if conversation.case is not None and conversation.cut_off
        for turn in conversation.sent
    ]
    if cut_off:
        store.discard(cut_off, lambda: None)
        await store.drained()
    kept = [one for one in conversations if not one.cut_off]
    had = {(one.case_id, one.user.conversation) for one in kept if one.user}
    had |= {(one.case_id, one.plan["number"]) for one in kept if one.plan}
    todo = {}
    for case in suite.cases:
        own = [one for one in kept if one.case is case][: case.conversations]
        if repeat_all or case.must_pass is None or not attempts_at(case, own).decided:
            free = (number for number in itertools.count(1) if (case.id, number) not in had)
            todo[case.id] = list(itertools.islice(free, case.conversations - len(own)))
    return {case_id: numbers for case_id, numbers in todo.items() if numbers}


class _Client(CaptureClient):
    """Knows of an agent that this process serves whether its model was reached, as is known of an A2A agent."""

    server: ServedAgent | None = None

    async def send(self, message: str | Sequence[Part] | Answer, **options: Any) -> CapturedTurn:
        turn = await super().send(message, **options)
        if self.server and (why := self.server.unreachable(turn.context_id)):
            error = AgentUnreachableError(why)
            error.turn = turn if turn.tool_calls else replace(turn, first_event_at=None)  # the task is ours
            raise error
        return turn


@asynccontextmanager
async def agent_client(
    options: AgentOptions, name: str | None = None
) -> AsyncIterator[tuple[CaptureClient, ServedAgent | None]]:
    """A client of the agent, or of the one of this name behind the proxy, and its server if this process serves it.

    Raises what `connected` and CaptureClient do, and ConfigError for an agent that the proxy does not have.
    """
    agent = _behind(options, name)
    async with (
        connected(agent.url, agent.chat, agent.headers, agent.tls, agent.timeout_s) as server,
        AsyncExitStack() as stack,
    ):
        client = _Client(
            server.url if server else agent.url,
            headers={} if server else agent.headers,
            tls=None if server else agent.tls,
            binding=agent.binding,
            streaming=agent.streaming,
            timeout_s=agent.timeout_s + (_SERVED_GRACE_S if server else 0),
            dialects=agent.dialects,
            trust_env=server is None,
            card_path=None if name is None else WELL_KNOWN_PATHS[0],  # at the origin may be that of another
        )
        client.server = server
        try:
            await stack.enter_async_context(client)
        except AgentError as error:
            if name is None or isinstance(error, AgentUnreachableError):
                raise
            raise ConfigError(
                f"the suite names the agent {name}, and {options.url} is no proxy with an agent of this name; {error}"
            ) from error
        yield client, server


@dataclass(frozen=True, slots=True)
class _Run:
    """What holds for all conversations of a run; see `run_suite`."""

    name: str
    store: Store
    pipeline: Pipeline
    privacy: Privacy
    watch: RunWatch
    tracing: Tracing | None
    repeat_all: bool
    seed: int | None
    agent_version: str | None

    def attempt(self, case: Case, number: int) -> dict[str, Any]:
        """As in `Turn.attempt`."""
        return {
            "number": number,
            "planned": case.conversations,
            "enough": None if self.repeat_all else case.must_pass,
            "seed": None if self.seed is None else attempt_seed(self.seed, case.id, number),
        }


async def _drive(run: _Run, suite: Suite, agent: AgentOptions, todo: Conversations, users: SimulatedUsers) -> None:
    """Hold the conversations `todo`. Raises NothingRanError if the agents answered none of them."""
    if run.watch.stops:
        return
    async with AsyncExitStack() as stack:
        agents: dict[str | None, _DrivenAgent] = {}
        for name in (name for case in suite.cases if case.id in todo for name in case.agents):
            if name not in agents:
                client, server = await stack.enter_async_context(agent_client(agent, name))
                agents[name] = _DrivenAgent(client, server, agent, run.agent_version, name or agent.agent_name)
        driver = _Driver(run, agents, users)
        await driver.drive(_pieces(suite, todo, repeat_all=run.repeat_all), agent.concurrency)
    if not driver.answered and driver.problem:
        raise NothingRanError(driver.problem)
    if driver.stopped_at:
        logger.warning("case %s and later ones are not run: one failed (--fail-fast)", driver.stopped_at)
    if driver.unanswered:
        logger.warning(
            "%d conversations broke off without an answer; the first thing that went wrong: %s",
            driver.unanswered,
            driver.problem,
        )


class _DrivenAgent:
    """`client` and `server` are those of `agent_client`; `agent_name` is as in `Turn`, `name` as in turns and reports,
    and `card` as in `Turn.agent_card`, where `agent_version` replaces the version of the agent's card."""

    def __init__(
        self,
        client: CaptureClient,
        server: ServedAgent | None,
        agent: AgentOptions,
        agent_version: str | None,
        agent_name: str | None,
    ) -> None:
        self.client, self.server, self.agent_name = client, server, agent_name
        self.visibility = CallVisibility(negotiate="always", dialects=bool(agent.dialects), logs=lambda: False)
        self.name = server.name if server else client.url
        version = agent_version or ("" if server else client.card.version)  # our own card says nothing about the agent
        card = {"name": self.name if server else client.card.name, "version": version}
        self.card = card if version else None


_Piece = tuple[Case, Sequence[int]]
"""Conversations of a case that follow one another, by their numbers."""


def _pieces(suite: Suite, todo: Conversations, *, repeat_all: bool) -> Iterator[_Piece]:
    """The missing conversations: those of a case together if an earlier one may make a later one unnecessary."""
    for case in suite.cases:
        numbers = todo.get(case.id, ())
        if case.must_pass is not None and not repeat_all:
            yield case, numbers
        else:
            yield from ((case, [number]) for number in numbers)


@dataclass(slots=True)
class _Held:
    """A conversation that is held. Each of its agents has a context of its own."""

    case: Case
    attempt: dict[str, Any]
    contexts: Mapping[str | None, CaptureConversation]
    id: str
    """Of our own until the first agent gives one: some agents give none, and one that is continued has several."""
    continued: str | None = None
    """The context of the first agent that it continues."""

    def found(self, turn: Turn) -> None:
        """The first agent has answered in this context."""
        if self.continued is None:
            self.id = turn.conversation_id or self.id
        elif turn.conversation_id not in ("", self.continued):
            problem = f"the agent continued another conversation than the given context_id {self.continued}"
            turn.findings.append(Finding(HISTORY_LOST, problem, Severity.ERROR))


@dataclass(slots=True)
class _Driver:
    _run: _Run
    _agents: Mapping[str | None, _DrivenAgent]  # by the names that cases give them
    _users: SimulatedUsers
    stopped_at: str = ""  # the first case that is not run because another one failed
    answered: int = 0  # messages that the agent answered, also with an error
    unanswered: int = 0  # conversations in which the agent left a message without answer, or the simulated user's model
    problem: str = ""  # the first problem, redacted
    _ids: dict[str, str] = field(default_factory=dict)  # of conversations with agents that are served here: to contexts

    async def drive(self, pieces: Iterator[_Piece], concurrency: int) -> None:
        """Hold these conversations, some concurrently. Raises StoreError where the store writes nothing more."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._have(pieces))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _have(self, pieces: Iterator[_Piece]) -> None:
        for case, numbers in pieces:
            for index, number in enumerate(numbers):
                if self._run.watch.stops:
                    self.stopped_at = self.stopped_at or case.id
                    return
                if index and await self._decided(case):
                    self._run.watch.advance(planned_turns(case) * (len(numbers) - index))
                    break
                if self._run.pipeline.depth >= _MAX_WAITING or self._run.pipeline.store_ended:
                    await self._run.pipeline.drained()
                await self._converse(case, number)
                if self._run.watch.fail_fast:
                    await self._run.pipeline.drained()
                    self._run.watch.failed |= self.unanswered > 0

    async def _decided(self, case: Case) -> bool:
        """Whether the attempts at a case so far are enough."""
        await self._run.pipeline.drained()
        turns = [turn async for turn in every_turn(self._run.store, TurnQuery(run=self._run.name, case=case.id))]
        conversations = {turn["conversation_id"] for turn in turns}
        results = await conversation_results(self._run.store, self._run.name, conversations)
        return attempts_at(case, follow(turns, Suite(name=case.id, cases=(case,)), results)).decided

    async def _converse(self, case: Case, number: int) -> None:
        """Hold one conversation, after its history if the case gives one."""
        contexts = {name: self._agents[name].client.conversation() for name in case.agents}
        history, speaker = self._users(case, number)
        held = _Held(case, self._run.attempt(case, number), contexts, f"{self._run.name}/{uuid.uuid4().hex}")
        first = case.agents[0]
        contexts[first].context_id = held.continued = case.given.context_id
        server = self._agents[first].server
        if server and (answered := [(turn.user, turn.answer) for turn in case.given.turns if turn.answer is not None]):
            contexts[first].context_id = held.id = uuid.uuid4().hex
            await server.begin(held.id, answered)
        await self._talk(held, history)
        if history.is_complete:
            await self._talk(held, speaker)
        for name, context in contexts.items():
            if server := self._agents[name].server:
                await server.end(context.context_id or "")
        self._run.watch.advance(speaker.left)

    async def _talk(self, held: _Held, speaker: Speaker) -> None:
        """Say what a speaker has to say. A turn is stored when the user has replied to it: the last one says how it
        ended. The conversation has the id that the first agent gave."""
        case, last, broken = held.case, None, False
        while (said := await speaker.next()) is not None:
            if last is not None:
                self._run.pipeline.take(last)
            name = said.agent or (case.agent_at(0) if speaker.given else case.agent)
            turn = self._begun(name, case, held.attempt)
            if said.answer is None:
                last, broken = await self._say(held.contexts[name], said.user, turn)
            else:
                last = replace(turn, user_text=said.user, response_text=said.answer, status="pending")
                last.ended_at = last.started_at
            if last is not None:
                last.given = speaker.given or None
                if said.answer is None and (server := self._agents[name].server):
                    await self._tell(server, last)
                if name == case.agents[0]:
                    held.found(last)
                if not (broken or speaker.given):
                    await self._probe(last, "turn", case.expect_at(speaker.spoken - 1))
                last.conversation_id = held.id
                last.simulated_user = speaker.mark
                self._agents[name].visibility.judge(last)
            speaker.heard(said.user, last, broken=broken)
            if not speaker.given:
                self._run.watch.advance()
        if last is not None and not (broken or speaker.given):
            await self._probe(last, "case", case.expect)
        self._end(case, speaker, last, held.id)

    async def _probe(self, turn: Turn, after: str, expect: Expectation) -> None:
        """Look at the world after a turn, or after a case whose last turn this is, if something is expected of it."""
        if expect.state_of_world is not None:
            texts = {"user_text": turn.user_text, "response_text": turn.response_text}
            about = {"case_id": turn.case_id or "", "context_id": turn.conversation_id, **texts}
            turn.world = {**(turn.world or {}), after: await probed(expect.state_of_world, about)}

    async def _tell(self, server: ServedAgent, turn: Turn) -> None:
        """Complete a turn; its conversation has the agent's own id, unless another conversation of the run has it."""
        context = turn.conversation_id
        server.tell(turn)
        if (own := turn.conversation_id) not in self._ids:
            self._ids[own] = context
            query = TurnQuery(run=self._run.name, conversation=own)
            if own != context and [item async for item in every_turn(self._run.store, query)]:
                self._ids[own] = ""  # of an earlier process
        if self._ids[own] != context:
            turn.conversation_id = context

    def _end(self, case: Case, speaker: Speaker, last: Turn | None, conversation_id: str) -> None:
        record = speaker.record
        if speaker.problem:
            self.unanswered += 1
            self._note(str(speaker.problem), speaker.problem, "simulated user")
        if last is not None:
            last.simulated_user = record or last.simulated_user
            self._run.pipeline.take(last)
        elif record is not None and not speaker.spoken:
            result = EvalResult.errored(SIMULATED_USER, "no turn", details=self._run.privacy.stored_user(record))
            key = ConversationKey(self._run.name, conversation_id, case.id)
            self._run.store.finish_conversations([ScoredConversation(key, 0, [result.to_dict()])], lambda: None)

    async def _say(self, conversation: CaptureConversation, text: str, turn: Turn) -> tuple[Turn | None, bool]:
        """The `turn` of a message, unless a fault of ours left none; and whether the conversation cannot continue."""
        turn.conversation_id = conversation.context_id or ""
        traceparent = f"00-{turn.trace_id}-{turn.parent_span_id}-01"
        if self._run.tracing:
            self._run.tracing.opened(turn)
        try:
            return await self._send(conversation, text, turn, traceparent)
        finally:
            if self._run.tracing:
                self._run.tracing.ended(turn)

    async def _send(
        self, conversation: CaptureConversation, text: str, turn: Turn, traceparent: str
    ) -> tuple[Turn | None, bool]:
        try:
            seed = turn.attempt and turn.attempt["seed"]
            said = text if isinstance(text, UserMessage) else UserMessage(text)
            metadata = {**said.metadata, **({} if seed is None else {SEED: seed})}
            trace = {"traceparent": traceparent, "tracestate": naming_turn(turn.turn_id, "")}
            captured = await conversation.send(said.to_send(), metadata=metadata, **trace)
        except CaptureError as error:
            self._note(str(error), error if isinstance(error, AgentError) else None, turn.agent)
            if error.turn is None:
                self.unanswered += 1
                return None, True
            _fill(turn, error.turn)
            unreachable = isinstance(error, AgentUnreachableError)
            if unreachable and turn.first_event_at is None:
                self.unanswered += 1
            else:
                self.answered += 1
            code = AGENT_UNREACHABLE if unreachable else "agent_error"
            turn.findings.append(Finding(code, str(error), Severity.ERROR))
            return turn, True
        except Exception as error:  # error boundary: a bug of ours costs one conversation, whose turns are missing then
            logger.error("case %s: its conversation broke off", turn.case_id, exc_info=error)
            self._note(f"case {turn.case_id}: {error!r}", error, turn.agent)
            self.unanswered += 1
            return None, True
        _fill(turn, captured)
        self.answered += 1
        return turn, False

    def _note(self, problem: str, quoting: Exception | None, of: str) -> None:
        """Keep the first problem; with `quoting`, the description may contain words `of` the agent or this one."""
        if self.problem:
            return
        if quoting is not None and not self._run.privacy.covers_texts:
            problem = f"{of}: {type(quoting).__name__}, whose words are not to be seen"
        self.problem = self._run.privacy.text(problem)

    def _begun(self, agent_name: str | None, case: Case, attempt: dict[str, Any]) -> Turn:
        agent = self._agents[agent_name]
        return Turn(
            turn_id=new_turn_id(),
            run=self._run.name,
            agent=agent.name,
            agent_name=agent.agent_name,
            binding="",
            protocol_version="",
            started_at=CLOCK.now(),
            case_id=case.id,
            trace_id=secrets.token_hex(16),
            parent_span_id=secrets.token_hex(8),
            agent_card=agent.card,
            attempt=attempt,
        )


def _fill(turn: Turn, captured: CapturedTurn) -> None:
    turn.binding = captured.binding
    turn.protocol_version = major_minor(captured.protocol_version)
    turn.started_at = captured.started_at.timestamp()
    turn.conversation_id = captured.context_id
    turn.task_id = captured.task_id
    turn.state = captured.state
    turn.status = "pending"
    turn.user_text = captured.user_text
    turn.user_parts = captured.user_parts
    turn.approvals = [call.to_dict() for call in captured.waiting] or None
    turn.response_text = captured.text
    turn.first_event_at = captured.first_event_at.timestamp() if captured.first_event_at else None
    turn.ended_at = captured.ended_at.timestamp()
    turn.tool_calls = list(captured.tool_calls)
    turn.findings = list(captured.findings)
    turn.usage = captured.usage
    turn.capture.declared = captured.declared
    turn.capture.requested_by_client = True
    turn.capture.protocol_only = len(turn.tool_calls)
