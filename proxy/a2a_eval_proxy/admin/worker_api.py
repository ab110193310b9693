"""The port of a worker: health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.types import ASGIApp

from ..net.browser_guard import HostNames
from .api import health_operations
from .guard import AdminGuard


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """The address a worker listens on, `HOST:PORT`, and the bearer token that `/metrics` requires."""

    address: str
    token: str | None = None


def worker_app(registry: CollectorRegistry, problems: Callable[[], list[str]], token: str | None) -> ASGIApp:
    """The ASGI application of the port. `problems` says why the worker takes no jobs."""
    routes = [operation.route() for operation in health_operations(registry, problems)]
    return AdminGuard(Starlette(routes=routes), token, HostNames())
