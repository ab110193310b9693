"""Traces that a command receives of the agent it drives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from .options import ReceivedTracesOptions

if TYPE_CHECKING:
    from ..otlp.trace_service import Tracing


@asynccontextmanager
async def receiving(options: ReceivedTracesOptions, *, silent: bool = False) -> AsyncIterator[Tracing | None]:
    """Receive traces for the time of the block if --otlp says where, and say what the agent's environment needs."""
    if options.otlp is None:
        yield None
        return
    from ..otlp.receivers import tracing_at

    async with tracing_at(options.otlp, options.trace_wait) as (tracing, url):
        if url and not silent:
            click.echo(f"receiving traces; the agent needs {variables(url)}", err=True)
        yield tracing


def variables(url: str) -> str:
    """The environment of an agent that sends its traces to `url`."""
    return f"OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
