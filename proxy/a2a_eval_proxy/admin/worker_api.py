"""The port of a worker: health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import ListenError
from ..net.browser_guard import BrowserGuard, HostNames
from ..net.http_server import HttpServer
from ..telemetry.counters import Metrics, evaluations
from .api import HEALTH_PATHS, RequireToken


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """The address a worker listens on, `HOST:PORT`, and the bearer token that `/metrics` requires."""

    address: str
    token: str | None = None


class WorkerCollector(Collector):
    """What a worker counts, under the names it has in a proxy that scores."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("a2a_eval_proxy_turns_scored", "Turns scored", value=self._metrics.turns_scored)
        yield evaluations(self._metrics)


def worker_app(registry: CollectorRegistry, problems: Callable[[], list[str]], token: str | None) -> ASGIApp:
    """The ASGI application of the port. `problems` says why the worker takes no jobs."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        found = problems()
        return PlainTextResponse("\n".join(found) + "\n", 503) if found else PlainTextResponse("ready\n")

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])
    return RequireToken(app, token) if token else BrowserGuard(app, HostNames(), open_paths=HEALTH_PATHS)


@asynccontextmanager
async def listening(options: AdminOptions, app: ASGIApp) -> AsyncIterator[str]:
    """Serve the port for the time of the block; its URL. Raises ListenError."""
    try:
        server = HttpServer(app, options.address, shutdown_timeout_s=1.0)
    except ListenError as error:
        raise ListenError(error.errno, f"{error.strerror}; choose another address with --admin") from error
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()
