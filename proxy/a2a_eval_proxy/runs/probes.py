"""Looks at the world after a turn or a case: by an HTTP request, a program or a Python function of the suite."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any
from urllib.parse import quote

import httpx
from a2a_tool_capture.environment_proxies import EnvironmentTransport, environment_authorities
from a2a_tool_capture.json_limits import has_too_many_values
from a2a_tool_capture.secret_references import resolve_header
from tool_call_evaluators.evaluator import FAILURES, error_reason
from tool_call_evaluators.metrics.external import MAX_OUTPUT_BYTES, output_of
from tool_call_evaluators.metrics.state_of_world import ProbeError
from tool_call_evaluators.suite.model import HttpProbe, WorldExpectation
from tool_call_evaluators.texts import from_json

from ..threads import in_daemon_thread

_ABSENT = (404, 410)
_tls = cache(environment_authorities)  # loading the certificates takes longer than a connection


async def probed(expected: WorldExpectation, about: Mapping[str, str]) -> dict[str, Any]:
    """What the probe sees, `{"seen": value}`, JSON data or a text; or why it failed, `{"error": reason}`.

    `about` is what the probe is told: `case_id`, `context_id`, `user_text`, `response_text`. Raises nothing.
    """
    try:
        async with asyncio.timeout(expected.timeout) as limit:
            return {"seen": _value(await _text(expected, about))}
    except FAILURES as error:
        if isinstance(error, TimeoutError) and limit.expired():
            return {"error": f"it did not finish within {expected.timeout:g} s"}
        return {"error": str(error) if isinstance(error, ProbeError) else error_reason(error)}


def _value(text: str) -> Any:
    if len(text) > MAX_OUTPUT_BYTES or has_too_many_values(text):
        raise ProbeError(f"it saw more than {MAX_OUTPUT_BYTES:,} bytes, or too many values")
    return from_json(text.strip())


async def _text(expected: WorldExpectation, about: Mapping[str, str]) -> str:
    """What it sees, JSON or not."""
    if expected.http is not None:
        return await _answer(expected.http, about)
    if expected.command is not None:
        data = json.dumps(about).encode()
        return (await output_of(expected.command, data, expected.timeout, expected.folder)).decode(errors="replace")
    function = expected.function
    if inspect.iscoroutinefunction(function):
        return json.dumps(await function(dict(about)))
    return json.dumps(await in_daemon_thread(partial(function, dict(about)), "probe"))


async def _answer(request: HttpProbe, about: Mapping[str, str]) -> str:
    url = request.url
    for name in ("case_id", "context_id"):
        url = url.replace(f"{{{name}}}", quote(about[name], safe=""))
    place = f"{request.method} {url.partition('?')[0]}"
    headers = {name: resolve_header(name, value) for name, value in request.headers.items()}
    body = {"content": request.body} if isinstance(request.body, str) else {"json": request.body}
    transport = EnvironmentTransport(_tls())
    try:
        async with (
            httpx.AsyncClient(transport=transport, timeout=None) as client,  # noqa: S113  # the caller limits it
            client.stream(request.method, url, headers=headers, **body) as response,
        ):
            if response.status_code in _ABSENT:
                return "null"
            if not response.is_success:
                raise ProbeError(f"{place}: HTTP {response.status_code}")
            text = ""
            async for part in response.aiter_text():
                text += part
                if len(text) > MAX_OUTPUT_BYTES:
                    break
            return text
    except httpx.HTTPError as error:
        raise ProbeError(f"{place}: {error_reason(error)}") from error
