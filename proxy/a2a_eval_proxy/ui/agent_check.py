"""Runs the check of the agent for a page: one at a time, bounded, in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping

from markupsafe import Markup

from ..errors import ConfigError
from ..net.tls import TlsFiles
from ..settings.settings import AgentSettings
from .rendering import environment
from .reruns import InThread

MAX_CHECK_S = 180.0
MAX_EXCHANGE_S = 30.0


class AgentCheck(InThread):
    """Checks the agent at `url`, with the proxy's own `headers` and TLS settings. `step` is what a running check does
    now; `report` that of the last one.

    It talks to the agent directly, so the check is no turn of the proxy.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: Callable[[], ssl.SSLContext | None]) -> None:
        super().__init__("check of the agent")
        self.url = url
        self.step: str | None = None
        self.report: Markup | None = None
        self._headers = headers
        self._tls = tls

    @classmethod
    def of(cls, settings: AgentSettings) -> AgentCheck:
        """The check of the agent that a proxy with these settings serves."""

        def tls() -> ssl.SSLContext | None:
            files = TlsFiles.of(settings.upstream_tls, "upstream_tls.")
            return files.client_context() if settings.upstream_is_secure else None

        return cls(settings.upstream, dict(settings.upstream_header), tls)

    def start(self) -> None:
        if not self.is_busy:
            self.step, self.report = "agent card", None
            self.begin(self._check())

    def ended(self) -> None:
        self.step = None

    async def _check(self) -> None:
        """Runs in the thread. What it imports loads the A2A SDK, which a proxy does without until then."""
        from ..check import ProbeClient, check_agent, wording

        try:
            async with asyncio.timeout(MAX_CHECK_S), ProbeClient(self._headers, MAX_EXCHANGE_S, self._tls()) as client:
                report = await check_agent(client, self.url, progress=self._progress)
        except TimeoutError:
            raise ConfigError(f"The check took longer than {MAX_CHECK_S:g} s and was stopped.") from None
        page = environment().get_template("check_report.html").render(report=report, wording=wording)
        self.report = Markup(page)  # noqa: S704  # the template escapes every text

    def _progress(self, step: str) -> None:
        self.step = step
