"""Proxies inside a test process: all in one thread with an event loop of its own, so that any kind of test can
wait. At the end of a test session, its turns are compared with the suite's gates, and the report is written."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from a2a_tool_capture.approvals import Answer, Part
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.errors import CaptureError, TurnTimeoutError
from a2a_tool_capture.wire import INTERRUPTED_STATES
from jinja2 import PackageLoader
from tool_call_evaluators.report.templating import plain_lines
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.messages import UserMessage, read_message
from tool_call_evaluators.texts import one_line, printable

from ..app import RunningProxy, run_proxy
from ..errors import ConfigError
from ..runs.run_plan import publish_report
from ..runs.run_result import judge_turns
from ..runs.stored_turns import conversation_results, open_existing_store, turns_of
from ..settings.options import load
from ..settings.settings import Settings
from ..store.base import TurnJson
from ..telemetry.turn_listener import TurnListener
from ..threads import LoopThread
from ..turn import Turn

Export = dict[str, Any]
"""What a proxy captured, as JSON data: `turns`, and by conversation id `conversation_results`."""

WAIT_S = 30.0
"""How long `turns` and `flush` wait by default: long enough for a judge, short enough for a test."""

MESSAGE_TIMEOUT_S = 120.0
"""How long `send` waits for the agent by default."""

MAX_IDLE = 4
"""Maximum number of unused proxies that are kept running for the next test."""

_CHOSEN = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "timeouts": {"shutdown": 5}}
_OWN = ("upstream", "store", "suite", "run")


class EvalProxy:
    """A proxy before an agent, as one test sees it: with the turns that began during the test."""

    def __init__(self, proxy: RunningProxy, loop: LoopThread) -> None:
        self._proxy = proxy
        self._loop = loop
        self._turn_ids: list[str] = []

    def __repr__(self) -> str:
        return f"<EvalProxy {self.url} before {self.agent_url}>"

    @property
    def url(self) -> str:
        """What a client is given in place of the agent's URL."""
        return self._proxy.url

    @property
    def agent_url(self) -> str:
        return self._proxy.control.settings.upstream

    @property
    def otlp_url(self) -> str | None:
        """Where the agent may send its traces; None unless the setting `otlp` asks for a receiver."""
        return self._proxy.otlp_url

    def send(
        self,
        message: str | dict[str, Any],
        *,
        after: Mapping[str, Any] | None = None,
        timeout_s: float = MESSAGE_TIMEOUT_S,
    ) -> TurnJson:
        """Send a message to the agent through the proxy, and return its turn, scored, as in /api/turns.

        `message`: as `user` of a turn in a suite: a text, `{"parts": [...]}`, or an answer such as `{"approve": True}`
        to what the turn `after` asked; paths of files are relative to the current directory.
        `after`: an earlier turn, whose conversation this message continues, and its task where that waits for input.
        A turn that the agent answered with an error is returned like any other: its `findings` say what happened.

        Raises CaptureError where the message led to no turn, TimeoutError after `timeout_s`, TypeError for a wrong
        argument, ValueError or OSError for a message that cannot be sent.
        """
        __tracebackhide__ = True
        if not isinstance(message, str | dict):
            raise TypeError(f"send: expected a message as in a suite, got {message!r}")
        if not isinstance(after, Mapping | None):
            raise TypeError(f"send: expected an earlier turn as `after`, as send() returns it, got {after!r}")
        read = read_message(message, str) if isinstance(message, dict) else message
        said = read if isinstance(read, UserMessage) else UserMessage(read)
        sent = said.to_send()
        if isinstance(sent, Answer) and after is None:
            raise TypeError(f"send: {message!r} is an answer; expected the turn that asked as `after`")
        trace_id = secrets.token_hex(16)
        problem = self._loop.run(self._send(sent, said.metadata, after, timeout_s, trace_id))
        turn = next((turn for turn in reversed(self.turns()) if turn["trace_id"] == trace_id), None)
        if isinstance(problem, TurnTimeoutError):
            raise TimeoutError(str(problem))
        if turn is None:
            error = problem or CaptureError(f"{self.url} answered, and no turn was captured")
            raise error.with_traceback(None) from None  # where it was raised says nothing to the author of a test
        return turn

    def turn(self, timeout_s: float = WAIT_S) -> TurnJson:
        """The only turn of this test. Raises AssertionError if there is another number of turns."""
        __tracebackhide__ = True
        turns = self.turns(timeout_s)
        if len(turns) != 1:
            hint = "" if turns else f"; send messages to {self.url}, or with a2a_proxy.send()"
            raise AssertionError(f"expected one turn, got {len(turns)}{hint}")
        return turns[0]

    def turns(self, timeout_s: float = WAIT_S) -> list[TurnJson]:
        """The turns that the agent has answered, scored, in the order in which they began, as in /api/turns.

        Raises TimeoutError where scoring takes longer than `timeout_s`.
        """
        self.flush(timeout_s)
        return self._loop.run(self._stored())

    def flush(self, timeout_s: float = WAIT_S) -> None:
        """Wait until every turn that the agent has answered is scored. Raises TimeoutError after `timeout_s`."""
        left = self._loop.run(self._proxy.flush(timeout_s))
        if left["pending"]:
            raise TimeoutError(f"{left['pending']} turn(s) were not scored within {timeout_s:g} s")

    def opened(self, turn: Turn) -> None:
        """A turn began. Called on the proxy's event loop."""
        self._turn_ids.append(turn.turn_id)

    async def _send(
        self,
        message: str | list[Part] | Answer,
        metadata: Mapping[str, Any],
        after: Mapping[str, Any] | None,
        timeout_s: float,
        trace_id: str,
    ) -> CaptureError | None:
        """Send a message as part of that trace, by which its turn is found; returns what went wrong."""
        context_id = task_id = None
        if after is not None:
            context_id = after["conversation_id"] or None
            task_id = after["task_id"] if after["state"] in INTERRUPTED_STATES else None
        headers = {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}
        try:
            async with CaptureClient(self.url, headers=headers, timeout_s=timeout_s) as client:
                await client.send(message, context_id=context_id, task_id=task_id, metadata=metadata)
        except CaptureError as error:
            return error
        return None

    async def _stored(self) -> list[TurnJson]:
        store = self._proxy.control.store
        return [turn for turn_id in self._turn_ids if (turn := await store.turn(turn_id)) is not None]


class ProxyPool:
    """The proxies of a test session: one for each agent and its settings, started when first asked for.

    Turns are kept in a temporary folder; `close` removes it. With `suite`, a file, turns are scored as that says.
    `case_id` is asked at the start of each turn which case it belongs to, where the client did not say so. With
    `export`, all turns are in `exported` when their proxy is stopped.
    """

    def __init__(
        self,
        *,
        run: str,
        suite: Path | None = None,
        case_id: Callable[[], str | None] = lambda: None,
        export: bool = False,
    ) -> None:
        self._run = run
        self._suite = suite
        self._case_id = case_id
        self._folder = TemporaryDirectory()
        self._loop = LoopThread("the proxy of the test session")
        self._servers: OrderedDict[Settings, _Server] = OrderedDict()
        self._numbers = itertools.count(1)
        self.exported: list[Export] = []
        self._export = export

    def acquire(self, agent_url: str, settings: Mapping[str, Any] | None = None) -> EvalProxy:
        """A view on the proxy before the agent; `settings` are those of `serve`, by their names in a config file.

        Raises ConfigError for what they cannot be; StoreError, SuiteError and ListenError as `run_proxy` does.
        """
        return self._loop.run(self._acquire(_settings(agent_url, settings or {})))

    def release(self, view: EvalProxy) -> None:
        """A view is used no more. Its proxy may be stopped when there are too many."""
        self._loop.run(self._release(view))

    def close(self) -> None:
        """Stop every proxy, then remove the folder. What is open then is closed as incomplete. Further calls do
        nothing."""
        if not self._loop.runs:
            return
        try:
            self._loop.run(self._stop_all())
        finally:
            self._loop.close()
            self._folder.cleanup()

    async def _acquire(self, key: Settings) -> EvalProxy:
        server = self._servers.get(key)
        if server is None:
            store = str(Path(self._folder.name, f"agent-{next(self._numbers)}.db"))
            suite = None if self._suite is None else str(self._suite)
            settings = dataclasses.replace(key, store=store, suite=suite, run=self._run)
            server = _Server(store, self._case_id)
            server.proxy = await server.stack.enter_async_context(run_proxy(settings, server, keeps_open_turns=False))
            self._servers[key] = server
        self._servers.move_to_end(key)
        view = EvalProxy(server.proxy, self._loop)
        server.views.append(view)
        return view

    async def _release(self, view: EvalProxy) -> None:
        for server in self._servers.values():
            if view in server.views:
                server.views.remove(view)
        idle = [key for key, server in self._servers.items() if not server.views]
        for key in idle[: max(0, len(idle) - MAX_IDLE)]:
            await self._stop(self._servers.pop(key))

    async def _stop_all(self) -> None:
        await asyncio.gather(*map(self._stop, self._servers.values()))

    async def _stop(self, server: _Server) -> None:
        await server.stack.aclose()
        if self._export:
            async with open_existing_store(server.store) as store:
                turns = [turn async for turn in turns_of(store, None)]
                results = await conversation_results(store, None)
                self.exported.append({"turns": turns, "conversation_results": results})


class _Server(TurnListener):
    """A running proxy, and what is told about its turns."""

    proxy: RunningProxy

    def __init__(self, store: str, case_id: Callable[[], str | None]) -> None:
        self.store = store
        self.stack = AsyncExitStack()
        self.views: list[EvalProxy] = []
        self._case_id = case_id

    def opened(self, turn: Turn) -> None:
        if turn.case_id is None:
            turn.case_id = self._case_id()
        for view in self.views:
            view.opened(turn)


def _settings(agent_url: str, given: Mapping[str, Any]) -> Settings:
    """What `run_proxy` needs, but for what the pool itself chooses. Raises ConfigError."""
    known = sorted(spec.name for spec in dataclasses.fields(Settings) if spec.name not in _OWN)
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"a proxy of a test has no setting {unknown[0]!r}; accepted are {', '.join(known)}")
    return load(Settings, {**_CHOSEN, **given, "upstream": agent_url, "run": "tests"})


_SHOWN_REASONS, _LONGEST_REASON = 50, 500
_TEMPLATES = PackageLoader(__package__ or "", "")


class SessionResult(NamedTuple):
    """Whether the session `failed` for more than its tests, the result for a terminal, as lines, and each reason."""

    failed: bool
    lines: list[str]
    reasons: list[str]


def finish_session(run: str, exports: list[Export], suite: Suite | None, folder: Path | None) -> SessionResult:
    """Judge what the proxies of a session have captured, and write the report into `folder` if there is one.

    A case of the suite without a turn fails the gates, unless the suite tolerates it. A report that cannot be written
    fails the session.
    """
    turns = [turn for export in exports for turn in export["turns"]]
    results = {key: found for export in exports for key, found in export["conversation_results"].items()}
    conclusion = judge_turns(suite, turns, results, run)
    try:
        page = publish_report(conclusion.report, folder)
    except OSError as error:
        problem = f"the report could not be written: {error}"
        return SessionResult(True, [problem], [problem])
    reasons = [] if suite is None else conclusion.verdict.reasons
    lines = plain_lines(
        "session.txt",
        _TEMPLATES,
        report=conclusion.report,
        reasons=reasons,
        page=page,
        most=_SHOWN_REASONS,
        longest=_LONGEST_REASON,
    )
    shown = [printable(one_line(reason.message, _LONGEST_REASON)) for reason in reasons[:_SHOWN_REASONS]]
    return SessionResult(bool(reasons), list(map(printable, lines)), shown)
