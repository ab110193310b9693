"""What pages let the agent do again: cases of a run, in a process of its own, and single messages."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from a2a_tool_capture.errors import CaptureError

from ..admin.api_operation import UploadedFile
from ..errors import ConfigError
from ..runs.again import run_program
from ..settings.options import environment_name
from ..settings.settings import AgentSettings
from ..threads import LoopThread

logger = logging.getLogger(__name__)

PLAYGROUND = "playground"
"""The run of single messages."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run `name` of the `cases` of an `earlier` one, of one of several agents or (None) of any. `problem`: why it did
    not take place."""

    name: str
    earlier: str
    cases: tuple[str, ...]
    agent: str | None
    is_running: bool = True
    problem: str = ""


@dataclass(slots=True)
class Reruns:
    """Runs cases of the suite file again, one run at a time; the runs go to the store at `store_url`."""

    store_url: str
    agents: Mapping[str, AgentSettings]
    """The settings of each agent behind the proxy, by name."""
    last: Rerun | None = None
    _task: asyncio.Task[None] | None = None

    def start(self, rerun: Rerun, suite: str, url: str, *, allow_plugins: bool) -> None:
        """Begin it, with the agent at `url`. Raises ConfigError while another one runs."""
        if self.last is not None and self.last.is_running:
            raise ConfigError(f"run {self.last.name} is not finished; wait for it")
        self.last = rerun
        self._task = asyncio.create_task(self._run(rerun, suite, url, allow_plugins=allow_plugins))

    async def _run(self, rerun: Rerun, suite: str, url: str, *, allow_plugins: bool) -> None:
        problem = "it was stopped"
        try:
            await run_program(
                suite, rerun.name, self.store_url, agent=url, cases=rerun.cases, allow_plugins=allow_plugins,
                environment=_without_own_settings(os.environ) | self._access_to(url, rerun.agent),
            )  # fmt: skip
            problem = ""
        except (ConfigError, OSError) as error:
            problem = str(error)
        finally:
            self.last = replace(rerun, is_running=False, problem=problem)

    def _access_to(self, url: str, agent: str | None) -> dict[str, str]:
        """What that agent is called, and how the proxy itself reaches it, as variables for `run`; references to secrets
        stay references."""
        settings, named = self.agents.get(agent or ""), {environment_name("agent_name"): agent} if agent else {}
        if settings is None or settings.upstream != url:  # no other agent gets these headers
            return named
        given = {
            "header": "\n".join(f"{name}: {value}" for name, value in settings.upstream_header),
            "agent_ca": settings.upstream_tls.ca,
            "agent_cert": settings.upstream_tls.cert,
            "agent_key": settings.upstream_tls.key,
            "agent_key_password": settings.upstream_tls.key_password,
        }
        return named | {environment_name(name): value for name, value in given.items() if value}


def _without_own_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that are settings of this process; a judge's stay."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("A2A_EVAL_PROXY_") or name.startswith("A2A_EVAL_PROXY_JUDGE")
    }


class InThread:
    """Does one thing at a time, in a thread with its own event loop. `problem`: why the last one failed, or ""."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.problem = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin to do it; nothing else may be under way."""
        self.problem = ""
        self._task = asyncio.create_task(self._do(work))

    def ended(self) -> None:
        """It is done, or has failed."""

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        thread = LoopThread(self._what)
        try:
            await thread.call(work)
        except (CaptureError, ConfigError) as error:
            self.problem = str(error)
        except Exception:  # whatever an agent makes of it, the page must say that it ended
            logger.exception("the %s failed", self._what)
            what = self._what.partition(" ")[0]
            self.problem = f"The {what} failed unexpectedly; the log of the proxy has the details."
        finally:
            thread.close(0)
            self.ended()


class Playground(InThread):
    """Sends single messages to an agent through the proxy at `url`, one at a time, as turns of a run of their own."""

    def __init__(self, url: Callable[[], str], run: str = PLAYGROUND) -> None:
        super().__init__("message of the playground")
        self.url = url
        self.run = run

    @classmethod
    def of(cls, agent: str, url: Callable[[], str]) -> Playground:
        """That of one of several agents of the proxy at `url`, or with the name "" that of the only one."""
        return cls(lambda: f"{url()}/agents/{agent}", f"{PLAYGROUND}-{agent}") if agent else cls(url)

    def send(self, text: str, conversation_id: str | None, files: Sequence[UploadedFile] = ()) -> None:
        """Begin to send it. Raises ConfigError while another message is being answered."""
        if self.is_busy:
            raise ConfigError("the agent has not answered the last message yet")
        self.begin(self._exchange(text, conversation_id, files))

    async def _exchange(self, text: str, conversation_id: str | None, files: Sequence[UploadedFile]) -> None:
        """Runs in the thread. What it imports loads the A2A SDK, which a proxy does without until then."""
        from a2a_tool_capture.client import MessageFile

        from ..runs.drive import AgentOptions
        from ..runs.send import send_message

        agent = AgentOptions(self.url(), {"A2A-Eval-Run": self.run})
        sent = [MessageFile(*file) for file in files]
        await send_message(agent, text, conversation_id=conversation_id, files=sent, observe=lambda _: None)
