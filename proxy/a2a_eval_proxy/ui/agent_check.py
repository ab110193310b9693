"""Runs the check of the agent for a page: one at a time, bounded, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from a2a_tool_capture.errors import AgentError, AgentUnreachableError, ConfigurationError
from markupsafe import Markup

from ..errors import ConfigError
from ..net.tls import TlsFiles
from ..settings.settings import AgentSettings
from ..threads import LoopThread
from .rendering import environment

logger = logging.getLogger(__name__)

MAX_CHECK_S = 180.0
MAX_EXCHANGE_S = 30.0


@dataclass(frozen=True, slots=True)
class CheckState:
    """`step` is what a running check does now; `report` that of the last one, `problem` why it has none."""

    step: str | None = None
    report: Markup | None = None
    problem: str | None = None


class AgentCheck:
    """Checks the agent at `url`, with the proxy's own `headers` and TLS settings.

    It talks to the agent directly, so the check is no turn of the proxy.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: Callable[[], ssl.SSLContext | None]) -> None:
        self.url = url
        self.state = CheckState()
        self._headers = headers
        self._tls = tls
        self._running: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, settings: AgentSettings) -> AgentCheck:
        """The check of the agent that a proxy with these settings serves."""

        def tls() -> ssl.SSLContext | None:
            files = TlsFiles.of(settings, "upstream", ca_setting="upstream_ca")
            return files.client_context() if settings.upstream_is_secure else None

        return cls(settings.upstream, dict(settings.upstream_header), tls)

    def start(self) -> None:
        """Begin a check, unless one is running."""
        if self._running is None or self._running.done():
            self.state = CheckState(step="agent card")
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        thread = LoopThread("check of the agent")
        try:
            self.state = CheckState(report=await thread.call(self._check()))
        except TimeoutError:
            self.state = CheckState(problem=f"The check took longer than {MAX_CHECK_S:g} s and was stopped.")
        except (AgentError, AgentUnreachableError, ConfigurationError, ConfigError) as error:
            self.state = CheckState(problem=str(error))
        except Exception:  # whatever an agent makes of it, the page must say that it ended
            logger.exception("the check of the agent failed")
            self.state = CheckState(problem="The check failed unexpectedly; the log of the proxy has the details.")
        finally:
            thread.close(0)

    async def _check(self) -> Markup:
        """Runs in the thread. What it imports loads the A2A SDK, which a proxy does without until then."""
        from ..check import ProbeClient, PushOptions, check_agent, wording

        async with asyncio.timeout(MAX_CHECK_S), ProbeClient(self._headers, MAX_EXCHANGE_S, self._tls()) as client:
            report = await check_agent(client, self.url, progress=self._progress, push=PushOptions())
        page = environment().get_template("check_report.html").render(report=report, wording=wording)
        return Markup(page)  # noqa: S704  # the template escapes every text

    def _progress(self, step: str) -> None:
        self.state = CheckState(step=step)
