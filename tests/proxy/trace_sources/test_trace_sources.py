"""Traces from where they are. What keeps them here answers as Tempo and Jaeger do by their sources: grafana/tempo,
modules/frontend/traceid_handlers.go (404, or `tempopb.Trace` for `Accept: application/protobuf`); jaegertracing/jaeger,
internal/apiv3/http_gateway.go and snapshots/GetTrace.json (OTLP JSON as `result`, said to be plain text). The spans are
golden ones."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.clock import CLOCK
from a2a_eval_proxy.features.trace_sources.fetching import fetching
from a2a_eval_proxy.turn import Turn
from agents.scenario_agent import AgentOptions, scenario_agent
from agents.serving import ServerThread
from golden.spans.fixtures import fixtures
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from support.commands import run
from support.kept import turn
from support.patience import PATIENCE_S
from tool_call_evaluators.visibility import Calls

TRACE_ID, OF_OTHERS = "5b" * 16, "0a" * 16
(GOLDEN,) = (fixture for fixture in fixtures() if fixture.name == "pydantic-ai--native")
CALLED = [{"name": call["name"], "arguments": call["arguments"]} for call in GOLDEN.expected["tool_calls"]]
NOT_FOUND = PlainTextResponse('{"error":{"httpCode":404,"message":"No traces found"}}', 404)
PROTOBUF = "application/protobuf"
NONE = Path.touch
"""No change of the file."""


def golden(trace_id: str, *, whole: bool = True) -> ExportTraceServiceRequest:
    """The golden spans in this trace: the `whole`, or those that are exported before their root."""
    content = GOLDEN.path.read_bytes().replace(bytes.fromhex(GOLDEN.spans[0].trace_id), bytes.fromhex(trace_id))
    request = ExportTraceServiceRequest.FromString(content)
    if not whole:
        del request.resource_spans[-1].scope_spans[-1].spans[-1]
    return request


def otlp_json(request: ExportTraceServiceRequest) -> str:
    text = MessageToJson(request, indent=None, use_integers_for_enums=True)
    ids = re.compile(r'("(?:traceId|spanId|parentSpanId)": )"([^"]+)"')
    return ids.sub(lambda found: f'{found[1]}"{base64.b64decode(found[2]).hex()}"', text)


def answered(request: Request, spans: ExportTraceServiceRequest) -> Response:
    """As Jaeger or Tempo, which the path tells."""
    if request.url.path.startswith("/api/v3/traces/"):
        return PlainTextResponse(f'{{"result":{otlp_json(spans)}}}')
    assert request.headers["accept"] == PROTOBUF
    return Response(spans.SerializeToString(), media_type=PROTOBUF)


def served(answer: Callable[[Request], Response]) -> ServerThread:
    return ServerThread(lambda _: Starlette(routes=[Route("/{path:path}", answer)]))


async def fetched(
    scheme: str, one: Turn, folder: Path, answer: Callable[[Request], Response], *steps: Callable[[Path], object]
) -> Turn:
    """The turn with what its trace shows, once nothing is waited for. The first step, with the file, is when the turn
    has ended, each next one when more has come."""
    file, news = folder / "traces.jsonl", asyncio.Queue[Any]()
    file.touch()
    with served(answer) as server:
        address = file if scheme == "otlp-file" else server.url.removeprefix("http:")
        async with fetching(f"{scheme}:{address}", {}, PATIENCE_S) as tracing:
            tracing.listen(None, lambda *changed: news.put_nowait(changed))
            tracing.opened(one)
            tracing.ended(one)
            for step in steps:
                step(file)
                await news.get()
            while not tracing.complete(one):
                await news.get()
            return tracing.evidence(one).added_to(one)


@pytest.mark.parametrize("scheme", ["tempo", "jaeger", "otlp-file"])
async def test_a_trace_is_asked_for_until_it_is_whole(scheme: str, tmp_path: Path) -> None:
    one, spans = turn(1, trace_id=TRACE_ID, ended_at=CLOCK.now()), golden(OF_OTHERS)

    def put(came: ExportTraceServiceRequest, file: Path) -> None:
        spans.MergeFrom(came)
        file.write_text(f"{otlp_json(spans)}\n{otlp_json(came)[:-9]}")  # the last line is being written

    steps = [partial(put, golden(TRACE_ID, whole=False)), partial(put, golden(TRACE_ID))]
    seen = await fetched(scheme, one, tmp_path, lambda request: answered(request, spans), *steps)
    assert [{"name": call.name, "arguments": call.arguments} for call in seen.tool_calls] == CALLED
    assert (len(seen.spans or ()), seen.findings) == (len(GOLDEN.spans), [])


@pytest.mark.parametrize(
    ("scheme", "answer", "change", "sentence"),
    [
        ("tempo", Response(None, 401), NONE, " answers 401 Unauthorized; give its credentials with --traces-header"),
        ("jaeger", Response(None, 503), NONE, " answers 503 Service Unavailable"),
        ("jaeger", RedirectResponse("https://login.example/"), NONE, " answers 307 Temporary Redirect"),
        ("tempo", HTMLResponse("<html>"), NONE, "text/html; charset=utf-8, which is no trace; is it the address of"),
        ("jaeger", HTMLResponse("<html>"), NONE, "answers with text/html; charset=utf-8, which is no trace; is it t"),
        ("jaeger", PlainTextResponse('{"data": []}'), NONE, "with text/plain; charset=utf-8, which is no trace; is"),
        ("tempo", Response(bytes(33 << 20)), NONE, " answers with more than 33554432 bytes"),
        (
            "otlp-file",
            None,
            partial(Path.write_bytes, data=b"\x28\xb5"),
            " is not OTLP JSON, uncompressed, in lines of",
        ),
        (
            "otlp-file",
            None,
            partial(Path.write_text, data=f'{{"{TRACE_ID}"}}\n'),
            " has a line that is no trace (the body is",
        ),
        (
            "otlp-file",
            None,
            lambda file: shutil.copy(file, f"{file}.new") and Path(f"{file}.new").replace(file),
            " was replaced, or exceeds 268435456 bytes; rotate it between runs",
        ),
    ],
)
async def test_what_is_no_trace_makes_calls_unknown(
    scheme: str,
    answer: Response,
    change: Callable[[Path], object],
    sentence: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also of a turn whose exchange shows that no calls were made."""
    one = turn(1, trace_id=TRACE_ID)
    seen = await fetched(scheme, one, tmp_path, lambda _: answer, change)
    assert (one.visibility.calls, seen.visibility.calls) == (Calls.NONE_MADE, Calls.UNKNOWN)
    assert [(found.code, sentence in found.message) for found in seen.findings] == [("calls_missed", True)]
    assert sum(sentence in record.getMessage() for record in caplog.records) == 1


def test_run_and_evaluate_fetch_traces(tmp_path: Path) -> None:
    asked: set[str] = set()

    def answer(request: Request) -> Response:
        trace_id = request.url.path.rpartition("/")[2]
        if request.headers.get("x-scope-orgid") != "shop":
            return Response(status_code=401)
        if trace_id not in asked:  # its spans are still on their way
            asked.add(trace_id)
            return NOT_FOUND
        return answered(request, golden(trace_id))

    suite, other = tmp_path / "suite.yaml", tmp_path / "other.yaml"
    for file, calls in ((suite, CALLED), (other, CALLED[1:])):
        case = {"id": "a", "turns": [{"user": "message me", "expect": {"tool_calls": calls}}]}
        file.write_text(json.dumps({"suite": "s", "evaluators": ["tool_trajectory"], "cases": [case]}))
    with scenario_agent(AgentOptions(declared=False)) as agent, served(answer) as server:
        address = server.url.removeprefix("http:")
        store = ("--store", tmp_path / "turns.db", "--trace-wait", str(PATIENCE_S))
        tenant = ("--traces-header", "X-Scope-OrgID: ${TENANT}")
        of_tempo = ("--agent", agent.url, *store, "--traces", f"tempo:{address}/prefix")
        for file, code in ((suite, 0), (other, 1)):
            done = run("run", file, *of_tempo, *tenant, TENANT="shop")
            assert done.returncode == code, done.stdout
        done = run("run", suite, *of_tempo, "--run", "unknown")
        assert (done.returncode, done.stderr.count("401 Unauthorized"), "calls_missed" in done.stdout) == (1, 1, True)
        again = ("evaluate", "--suite", suite, "--run", "unknown", *store, "--traces", f"jaeger:{address}")
        assert run(*again).returncode == 1
        done = run(*again, *tenant, TENANT="shop")
        assert done.returncode == 0, done.stdout
