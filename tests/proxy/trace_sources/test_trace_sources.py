"""Traces from where they are. What keeps them here answers as Tempo and Jaeger do by their sources: grafana/tempo,
modules/frontend/traceid_handlers.go (404, or `tempopb.Trace` for `Accept: application/protobuf`); jaegertracing/jaeger,
internal/apiv3/http_gateway.go and snapshots/GetTrace.json (OTLP JSON as `result`, said to be plain text). The spans are
golden ones."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a_eval_proxy.clock import CLOCK
from a2a_eval_proxy.features.trace_sources.fetching import FetchedTraces, fetching
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
from support import net_server
from support.commands import run
from support.kept import turn
from support.patience import PATIENCE_S
from tool_call_evaluators.visibility import Calls

TRACE_ID, OF_OTHERS = "5b" * 16, "0a" * 16
(GOLDEN,) = (fixture for fixture in fixtures() if fixture.name == "pydantic-ai--native")
CALLED = [{"name": call["name"], "arguments": call["arguments"]} for call in GOLDEN.expected["tool_calls"]]
NOT_FOUND = PlainTextResponse('{"error":{"httpCode":404,"message":"No traces found"}}', 404)


def golden(trace_id: str, *, whole: bool = True) -> ExportTraceServiceRequest:
    """The golden spans in this trace: the `whole`, or those that are exported before their root."""
    request = GOLDEN.request
    for scope in (scope for resource in request.resource_spans for scope in resource.scope_spans):
        kept = [span for span in scope.spans if whole or span.parent_span_id]
        del scope.spans[:]
        scope.spans.extend(kept)
        for span in scope.spans:
            span.trace_id = bytes.fromhex(trace_id)
    return request


def otlp_json(request: ExportTraceServiceRequest) -> str:
    text = MessageToJson(request, indent=None, use_integers_for_enums=True)
    ids = re.compile(r'("(?:traceId|spanId|parentSpanId)": )"([^"]+)"')
    return ids.sub(lambda found: f'{found[1]}"{base64.b64decode(found[2]).hex()}"', text)


def tempo(request: ExportTraceServiceRequest) -> Response:
    return Response(request.SerializeToString(), media_type="application/protobuf")


def jaeger(request: ExportTraceServiceRequest) -> Response:
    return PlainTextResponse(f'{{"result":{otlp_json(request)}}}')


class Keeper:
    """Keeps traces; `scheme` says how."""

    def __init__(self, scheme: str, folder: Path) -> None:
        self._scheme = scheme
        self.file = folder / "traces.jsonl"
        self.answer: Response = NOT_FOUND
        self.file.touch()

    def put(self, *requests: ExportTraceServiceRequest) -> None:
        """What it has from now on; the end of a file is being written."""
        both = ExportTraceServiceRequest()
        for request in requests:
            both.MergeFrom(request)
        self.answer = (tempo if self._scheme == "tempo" else jaeger)(both)
        self.file.write_text("".join(f"{otlp_json(request)}\n" for request in requests) + otlp_json(both)[:-9])

    @asynccontextmanager
    async def fetching(self, wait_s: float = PATIENCE_S) -> AsyncIterator[FetchedTraces]:
        async def answer(request: Request) -> Response:
            return self.answer

        paths = ("/api/traces/{trace_id}", "/api/v3/traces/{trace_id}")
        async with net_server.serving(Starlette(routes=[Route(path, answer) for path in paths])) as server:
            at = f"//{server.address}" if self._scheme != "otlp-file" else str(self.file)
            async with fetching(f"{self._scheme}:{at}", {}, wait_s) as tracing:
                yield tracing


async def until(tracing: FetchedTraces, holds: Callable[[], bool]) -> None:
    news = asyncio.Event()
    stop = tracing.listen(None, lambda *_: news.set())
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await news.wait()
            news.clear()
    stop()


def traced(**more: float) -> Turn:
    return turn(1, trace_id=TRACE_ID, **more)


@pytest.mark.parametrize("scheme", ["tempo", "jaeger", "otlp-file"])
async def test_a_trace_is_asked_for_until_it_is_whole(scheme: str, tmp_path: Path) -> None:
    keeper, one = Keeper(scheme, tmp_path), traced(ended_at=CLOCK.now())
    async with keeper.fetching() as tracing:
        tracing.opened(one)
        tracing.ended(one)
        keeper.put(golden(OF_OTHERS), golden(TRACE_ID, whole=False))
        await until(tracing, lambda: tracing.has_sent(None))
        assert tracing.wait_s(one) > 0
        keeper.put(golden(OF_OTHERS), golden(TRACE_ID))
        await until(tracing, lambda: tracing.complete(one))
        seen = tracing.evidence(one).added_to(one)
    assert [{"name": call.name, "arguments": call.arguments} for call in seen.tool_calls] == CALLED
    assert seen.findings == []
    assert len(seen.spans) == len(GOLDEN.spans)


@pytest.mark.parametrize(
    ("scheme", "answer", "sentence"),
    [
        ("tempo", Response(status_code=401), " answers 401 Unauthorized; give its credentials with --traces-header"),
        ("jaeger", Response(status_code=503), " answers 503 Service Unavailable"),
        ("jaeger", RedirectResponse("https://login.example/"), " answers 307 Temporary Redirect"),
        ("tempo", HTMLResponse("<html>"), " answers with text/html, no trace; is it the address of its HTTP API?"),
        ("jaeger", PlainTextResponse("{}}"), " has a trace that cannot be read: the body is not JSON"),
        ("tempo", Response(b"x", media_type="application/protobuf"), "cannot be read: the body is not a protobuf"),
        ("tempo", Response(bytes(33 << 20), media_type="application/protobuf"), " has more than 33554432 bytes of a"),
    ],
)
async def test_what_is_no_trace_makes_calls_unknown(
    scheme: str, answer: Response, sentence: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, one = Keeper(scheme, tmp_path), traced()
    keeper.answer = answer
    await _is_unknown(keeper, one, sentence, lambda: None)
    assert sum(sentence in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x28\xb5\x2f\xfd", " is not OTLP JSON, uncompressed, in lines of up to 33554432 bytes"),
        (f'{{"{TRACE_ID}"}}\n'.encode(), " has a trace that cannot be read: the body is not JSON"),
        (None, " was replaced by another file: spans may be in the first one; rotate it later"),
    ],
)
async def test_a_file_that_cannot_be_read_makes_calls_unknown(
    content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    keeper = Keeper("otlp-file", tmp_path)

    def change() -> None:
        if content is None:
            keeper.file.rename(tmp_path / "traces-1.jsonl")
        keeper.file.write_bytes(content or b"")

    await _is_unknown(keeper, traced(), sentence, change)


async def _is_unknown(keeper: Keeper, one: Turn, sentence: str, change: Callable[[], object]) -> None:
    """Also of a turn whose exchange shows that no calls were made."""
    assert one.visibility.calls is Calls.NONE_MADE
    async with keeper.fetching() as tracing:
        change()
        tracing.opened(one)
        tracing.ended(one)
        await until(tracing, lambda: tracing.complete(one))
        seen = tracing.evidence(one).added_to(one)
    assert seen.visibility.calls is Calls.UNKNOWN
    assert [(found.code, sentence in found.message) for found in seen.findings] == [("calls_missed", True)]


def test_run_and_evaluate_fetch_traces(tmp_path: Path) -> None:
    asked: set[str] = set()

    async def answer(request: Request) -> Response:
        trace_id = request.path_params["trace_id"]
        if request.headers.get("x-scope-orgid") != "shop":
            return Response(status_code=401)
        if trace_id not in asked:  # its spans are still on their way
            asked.add(trace_id)
            return NOT_FOUND
        return (jaeger if "/v3/" in request.url.path else tempo)(golden(trace_id))

    paths = ("/prefix/api/traces/{trace_id}", "/api/v3/traces/{trace_id}")
    suite, other = tmp_path / "suite.yaml", tmp_path / "other.yaml"
    for file, calls in ((suite, CALLED), (other, CALLED[1:])):
        case = {"id": "a", "turns": [{"user": "message me", "expect": {"tool_calls": calls}}]}
        file.write_text(json.dumps({"suite": "s", "evaluators": ["tool_trajectory"], "cases": [case]}))
    app = Starlette(routes=[Route(path, answer) for path in paths])
    with scenario_agent(AgentOptions(declared=False)) as agent, ServerThread(lambda _: app) as kept:
        address = kept.url.removeprefix("http:")
        store = ("--store", tmp_path / "turns.db", "--trace-wait", str(PATIENCE_S))
        tenant = ("--traces-header", "X-Scope-OrgID: ${TENANT}")
        of_tempo = ("--agent", agent.url, *store, "--traces", f"tempo:{address}/prefix")
        done = run("run", suite, *of_tempo, *tenant, TENANT="shop")
        assert done.returncode == 0, done.stdout
        assert run("run", other, *of_tempo, *tenant, TENANT="shop").returncode == 1
        done = run("run", suite, *of_tempo, "--run", "unknown")
        assert (done.returncode, done.stderr.count("401 Unauthorized"), "calls_missed" in done.stdout) == (1, 1, True)
        again = ("evaluate", "--suite", suite, "--run", "unknown", *store, "--traces", f"jaeger:{address}")
        assert run(*again).returncode == 1
        done = run(*again, *tenant, TENANT="shop")
        assert done.returncode == 0, done.stdout
