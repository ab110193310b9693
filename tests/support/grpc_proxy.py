"""A proxy with a gRPC port, and the clients of a2a-sdk for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.settings.settings import Settings


@asynccontextmanager
async def running_proxy(upstream: str, folder: Path, **settings: Any) -> AsyncIterator[RunningProxy]:
    """A proxy with a gRPC port, in this event loop."""
    addresses = dict.fromkeys(("listen", "grpc", "admin"), "127.0.0.1:0")
    options = Settings(upstream=upstream, otlp=None, store=str(folder / "turns.db"), **{**addresses, **settings})
    async with run_proxy(options) as proxy:
        yield proxy
