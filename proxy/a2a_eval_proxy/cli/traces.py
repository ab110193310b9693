"""Traces of turns, which a command receives or fetches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
from a2a_tool_capture.secret_references import resolve_header

from ..errors import ConfigError
from ..feature import features
from .options import FetchedTracesOptions, ReceivedTracesOptions

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


@asynccontextmanager
async def fetching(options: FetchedTracesOptions) -> AsyncIterator[Tracing | None]:
    """Fetch traces for the time of the block if --traces says from where.

    Raises ConfigError, ConfigurationError for a header's variable that is not set, and an error with the exit code of
    what is unreachable where nobody answers there.
    """
    if options.traces is None:
        yield None
        return
    fetchers = {scheme: fetch for feature in features() for scheme, fetch in feature.traces.items()}
    scheme = options.traces.partition(":")[0]
    if scheme not in fetchers:
        known = ", ".join(f"{one}:" for one in fetchers)
        raise ConfigError(f"--traces: expected a location that begins with one of {known or 'none'}, got {scheme!r}")
    headers = {name: resolve_header(name, value) for name, value in options.traces_header}
    async with fetchers[scheme](options.traces, headers, options.trace_wait) as tracing:
        yield tracing


def variables(url: str) -> str:
    """The environment of an agent that sends its traces to `url`."""
    return f"OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
