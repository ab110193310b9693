"""A2E under the names of its documentation: a client, its tools and a plug-in without asyncio."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.a2e import HostGoneError, HostRefusedError
from a2a_tool_capture.a2e.sdk import (
    A2EClient,
    A2EError,
    A2EEvent,
    A2EPlugin,
    InProcessTransport,
    ToolAPI,
    ToolCallRequest,
    ToolCallResponse,
    ToolDefinition,
    ToolDeniedError,
    ToolErrorCode,
    ToolEvent,
    ToolListRequest,
    ToolListResponse,
    ToolPlugin,
    host_process,
)
from extension.a2e.host_program import Shop
from support.patience import PATIENCE_S

PROGRAM = str(Path(__file__).with_name("host_program.py"))


class Files(ToolPlugin):
    """A host as A2E's documentation describes one."""

    def __init__(self) -> None:
        self.listed = 0
        self.hang = threading.Event()

    def _list_tools(self) -> list[ToolDefinition]:
        self.listed += 1
        return [
            ToolDefinition(name="read_file", description="Reads a file", tags=("fs",)),
            ToolDefinition(name="fetch", description="Reads a page", tags=("network",), toolkit="web"),
            ToolDefinition(name="push", description="Writes to github", tags=("network",), defer_loading=True),
        ]

    def _execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match tool_name:
            case "fetch":
                self.hang.wait(PATIENCE_S)
            case "push":
                raise ToolDeniedError("not allowed")
        self.emit("progress", {"pct": 50})
        return {"content": f"of {arguments['path']}", "exit_code": 0}


@pytest.fixture
def files() -> Iterator[Files]:
    plugin = Files()
    yield plugin
    plugin.hang.set()


@pytest.fixture
def client(files: Files) -> Iterator[A2EClient]:
    with A2EClient(InProcessTransport(files)) as client:
        yield client


def names(tools: Sequence[ToolDefinition]) -> list[str]:
    return [tool.name for tool in tools]


# ── the agent's side ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(303, 304)
def test_the_tools_of_a_client_are_listed(client: A2EClient) -> None:
    tools = ToolAPI(client).list()
    assert isinstance(tools, list)
    assert names(tools) == ["read_file", "fetch"]


@pytest.mark.statement(305)
def test_a_search_includes_deferred_tools(client: A2EClient) -> None:
    tools = ToolAPI(client)
    assert names(tools.list(query="github", include_deferred=True)) == ["push"]
    assert names(tools.list(query="github")) == ["push"]
    assert names(tools.list(query="github", include_deferred=False)) == []


@pytest.mark.statement(306)
def test_tools_are_listed_by_their_tags(client: A2EClient) -> None:
    assert names(ToolAPI(client).list(tags=["network"])) == ["fetch"]
    assert names(ToolAPI(client).list(tags=["network"], include_deferred=True)) == ["fetch", "push"]


@pytest.mark.statement(309)
def test_the_client_caches_the_plain_list(client: A2EClient, files: Files) -> None:
    listed = ToolAPI(client).list()
    assert client._tools_cache is listed
    assert ToolAPI(client).list() is listed
    assert files.listed == 1
    ToolAPI(client).list(tags=["network"])
    assert files.listed == 2
    assert client._tools_cache is listed


@pytest.mark.statement(303, 307, 308)
def test_a_call_with_the_arguments_of_the_documentation(client: A2EClient) -> None:
    result = ToolAPI(client).call(
        tool_name="read_file",
        arguments={"path": "/etc/hostname"},
        streaming=False,
        on_event=None,
        timeout=30.0,
        correlation_id=None,
    )
    assert result.success
    assert result.data == {"content": "of /etc/hostname", "exit_code": 0}
    assert (result.exit_code, result.error_code, result.error) == (0, None, None)


@pytest.mark.statement(308)
@pytest.mark.parametrize(
    ("tool", "code", "error"),
    [
        ("teleport", ToolErrorCode.UNKNOWN_TOOL, "there is no tool 'teleport'"),
        ("push", ToolErrorCode.TOOL_DENIED, "not allowed"),
        ("read_file", ToolErrorCode.TOOL_ERROR, "'path'"),
    ],
)
def test_failures_are_results(client: A2EClient, tool: str, code: ToolErrorCode, error: str) -> None:
    result = ToolAPI(client).call(tool, {})
    assert (result.success, result.error_code, result.error) == (False, code, error)


def test_events_arrive_in_the_thread_of_the_caller_who_may_call_tools_meanwhile(client: A2EClient) -> None:
    tools = ToolAPI(client)
    heard: list[tuple[str, str, bool]] = []

    def hear(event: ToolEvent) -> None:
        inner = tools.call("read_file", {"path": "b"})
        heard.append((event.kind, threading.current_thread().name, inner.success))

    result = tools.call("read_file", {"path": "a"}, streaming=True, on_event=hear)
    assert heard == [("progress", threading.current_thread().name, True)]
    assert [event.data for event in result.events] == [{"pct": 50}]


@pytest.mark.statement(312)
def test_calls_are_recorded_as_tool_calls(client: A2EClient) -> None:
    recorder = ToolCallRecorder()
    tools = ToolAPI(client, recorder=recorder)
    with recorder.request() as recording:
        tools.call("read_file", {"path": "a"})
        tools.call("push")
    assert recording is not None
    assert [(call.name, call.arguments, call.error) for call in recording.tool_calls] == [
        ("read_file", {"path": "a"}, None),
        ("push", {}, "tool_denied: not allowed"),
    ]


def test_a_host_in_another_process() -> None:
    with A2EClient(host_process(sys.executable, PROGRAM)) as client:
        assert ToolAPI(client).call("search", {"q": "kettle"}).data == {"found": ["kettle"]}
        assert "search" in names(ToolAPI(client).list())


async def test_code_without_asyncio_may_run_below_code_with_it(client: A2EClient) -> None:
    assert ToolAPI(client).call("read_file", {"path": "a"}).success
    assert isinstance(Files().handle(ToolListRequest()), ToolListResponse)


def test_a_client_that_is_not_connected_says_so(files: Files) -> None:
    client = A2EClient(InProcessTransport(files))
    with pytest.raises(HostGoneError, match=r"not connected; use `with client:`, or call connect\(\) first"):
        ToolAPI(client)
    with client:
        tools = ToolAPI(client)
        client.connect()  # again: nothing happens
    for attempt in (lambda: tools.call("read_file"), lambda: tools.list(tags=["fs"])):
        with pytest.raises(HostGoneError, match="not connected"):
            attempt()
    client.disconnect()


def test_a_host_that_cannot_be_started_fails_the_connection() -> None:
    client = A2EClient(host_process("/nothing/like/that"))
    with pytest.raises(FileNotFoundError):
        client.connect()
    with pytest.raises(HostGoneError, match="not connected"):
        ToolAPI(client)


def test_disconnecting_fails_the_calls_that_run() -> None:
    reached = threading.Event()
    failed: list[BaseException] = []

    class Waits(Files):
        def _execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            reached.set()
            return super()._execute_tool(tool_name, arguments)

    host = Waits()
    client = A2EClient(InProcessTransport(host))
    client.connect()
    tools = ToolAPI(client)

    def call() -> None:
        try:
            tools.call("fetch", {})
        except HostGoneError as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert reached.wait(PATIENCE_S)
    client.disconnect()
    caller.join(PATIENCE_S)
    host.hang.set()
    assert [str(error) for error in failed] == ["the client was disconnected"]


# ── the host's side ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(292)
def test_a_tool_plug_in_is_a_plug_in_with_a_default_name() -> None:
    assert issubclass(ToolPlugin, A2EPlugin)
    assert isinstance(Shop(), A2EPlugin)
    assert Files().name == ToolPlugin.name == "base_tool"


@pytest.mark.statement(293, 294)
@pytest.mark.parametrize("missing", ["_list_tools", "_execute_tool"])
def test_listing_and_executing_are_abstract(missing: str) -> None:
    methods = {"_list_tools": Files._list_tools, "_execute_tool": Files._execute_tool}
    given = {name: method for name, method in methods.items() if name != missing}
    with pytest.raises(TypeError, match=f"abstract method '?{missing}"):
        type("Incomplete", (ToolPlugin,), given)()
    assert type("Complete", (ToolPlugin,), methods)


@pytest.mark.statement(299, 300)
def test_a_list_request_is_answered_without_deferred_tools(files: Files) -> None:
    answer = files.handle(ToolListRequest())
    assert isinstance(answer, ToolListResponse)
    assert names(answer.tools) == ["read_file", "fetch"]


@pytest.mark.statement(299, 301)
def test_a_search_request_is_answered_with_what_the_search_finds(files: Files) -> None:
    request = ToolListRequest(query="READS", include_deferred=True)
    answer = files.handle(request)
    assert isinstance(answer, ToolListResponse)
    assert (answer.req_id, names(answer.tools)) == (request.id, ["read_file", "fetch"])


@pytest.mark.statement(295, 296)
def test_the_search_may_be_overridden_and_is_given_query_tags_and_tools() -> None:
    given: list[Any] = []

    class Ranked(Files):
        def _search_tools(
            self,
            query: str,
            filter_tags: Sequence[str] | None = None,
            tools: Sequence[ToolDefinition] | None = None,
        ) -> Sequence[ToolDefinition]:
            given.append((query, filter_tags, names(tools or ())))
            return list(reversed(tools or ()))

    answer = Ranked().handle(ToolListRequest(query="x", filter_tags=("fs",), include_deferred=True))
    assert isinstance(answer, ToolListResponse)
    assert names(answer.tools) == ["push", "fetch", "read_file"]
    assert given == [("x", ["fs"], ["read_file", "fetch", "push"])]


@pytest.mark.statement(295)
def test_the_search_finds_parts_of_names_descriptions_and_tags(files: Files) -> None:
    assert names(files._search_tools("FILE")) == ["read_file"]
    assert names(files._search_tools("page")) == ["fetch"]
    assert names(files._search_tools("work")) == ["fetch", "push"]
    assert names(files._search_tools("", ["network"])) == ["fetch", "push"]
    assert names(files._search_tools("fetch", tools=[])) == []


@pytest.mark.statement(299, 302)
def test_a_call_that_was_made_is_answered_with_its_result(files: Files) -> None:
    request = ToolCallRequest(tool_name="read_file", arguments={"path": "a"})
    answer = files.handle(request)
    assert isinstance(answer, ToolCallResponse)
    assert (answer.req_id, answer.data.data) == (request.id, {"content": "of a", "exit_code": 0})
    failed = files.handle(ToolCallRequest(tool_name="read_file"))
    assert isinstance(failed, ToolCallResponse)
    assert (failed.data.success, failed.data.error_code) == (False, ToolErrorCode.TOOL_ERROR)


@pytest.mark.statement(302)
@pytest.mark.parametrize(
    ("tool", "code"), [("teleport", ToolErrorCode.UNKNOWN_TOOL), ("push", ToolErrorCode.TOOL_DENIED)]
)
def test_a_call_that_could_not_be_made_is_answered_with_an_error(files: Files, tool: str, code: str) -> None:
    request = ToolCallRequest(tool_name=tool)
    answer = files.handle(request)
    assert isinstance(answer, A2EError)
    assert (answer.TYPE, answer.req_id, answer.code, answer.retryable) == ("error", request.id, code, False)


@pytest.mark.statement(302)
def test_tools_that_cannot_be_listed_are_an_error() -> None:
    class Broken(Files):
        def _list_tools(self) -> list[ToolDefinition]:
            raise RuntimeError("boom")

    for request in (ToolListRequest(), ToolCallRequest(tool_name="read_file")):
        answer = Broken().handle(request)
        assert isinstance(answer, A2EError)
        assert answer.message == "boom"
    with A2EClient(InProcessTransport(Broken())) as client, pytest.raises(HostRefusedError, match="boom"):
        ToolAPI(client).list()


@pytest.mark.statement(287)
def test_events_of_tools_are_events_of_a2e(files: Files) -> None:
    heard: list[ToolEvent] = []
    files.set_event_callback(heard.append)
    files.handle(ToolCallRequest(tool_name="read_file", arguments={"path": "a"}))
    assert issubclass(ToolEvent, A2EEvent)
    assert [(type(event), event.TYPE, event.kind) for event in heard] == [(ToolEvent, "tool/event", "progress")]


@pytest.mark.statement(280)
def test_a_call_that_takes_too_long_is_answered_while_its_function_still_runs(files: Files) -> None:
    answer = files.handle(ToolCallRequest(tool_name="fetch", timeout=0.05))
    assert isinstance(answer, ToolCallResponse)
    assert answer.data.error == "no result within 0.05 s"
    assert not files.hang.is_set()


def test_a_tool_that_raises_what_no_future_can_hold_fails() -> None:
    class Ends(Files):
        def _execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            raise StopIteration

    answer = Ends().handle(ToolCallRequest(tool_name="read_file"))
    assert isinstance(answer, ToolCallResponse)
    assert answer.data.error == "the tool raised StopIteration()"
