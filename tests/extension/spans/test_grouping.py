"""Which spans are one call, and which are real repeats."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.spans.model import KIND_CLIENT, KIND_SERVER, Span
from a2a_tool_capture.spans.observations import Lineage, group, read_span
from golden.spans.building import OTHER_TRACE, a_span, a_tool_span

PARIS = {"city": "Paris"}
ZURICH = {"city": "Zürich"}


def groups(*spans: Span) -> list[list[int]]:
    """The span numbers of each call, calls by start, spans outermost first."""
    observations = [observation for span in spans if (observation := read_span(span))]
    found, _ = group(observations, Lineage(spans))
    return [[int(observation.span.span_id, 16) for observation in one.observations] for one in found]


def an_mcp_span(number: int, tool: str = "get_weather", **span: Any) -> Span:
    return a_span(number, {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}, scope="mcp", **span)


def test_an_id_that_is_used_again_with_other_arguments_is_of_another_call() -> None:
    spans = [
        a_tool_span(1, arguments=PARIS, call_id="call_0"),
        a_tool_span(2, arguments=ZURICH, call_id="call_0", at=5),
        a_tool_span(3, arguments=PARIS, call_id="call_0", at=9),
    ]
    found, findings = group([observation for span in spans if (observation := read_span(span))], Lineage(spans))
    assert [[int(observation.span.span_id, 16) for observation in one.observations] for one in found] == [[1, 3], [2]]
    assert [finding.code for finding in findings] == ["id_reused"]


def test_one_id_of_two_tools_is_two_calls_and_a_finding() -> None:
    spans = [a_tool_span(1, "a", call_id="call_1"), a_tool_span(2, "b", call_id="call_1", at=1)]

    found, findings = group([observation for span in spans if (observation := read_span(span))], Lineage(spans))

    assert len(found) == 2
    assert [finding.code for finding in findings] == ["id_conflict"]
    assert "call_1" in findings[0].message


def test_spans_between_two_observations_may_be_anything_but_an_agent() -> None:
    outer, inner = a_tool_span(1, call_id="call_1"), a_tool_span(4, parent=3)
    http = [a_span(2, {"http.request.method": "POST"}, parent=1), a_span(3, {}, parent=2)]
    agent = [a_span(2, {"gen_ai.operation.name": "invoke_agent"}, parent=1), a_span(3, {}, parent=2)]

    assert groups(outer, *http, inner) == [[1, 4]]
    assert groups(outer, *agent, inner) == [[1], [4]]


@pytest.mark.parametrize(
    "other",
    [
        a_tool_span(2, arguments=PARIS, scope="traceloop", at=5),
        a_tool_span(2, arguments=ZURICH, scope="traceloop"),
        a_tool_span(2, "get_time", arguments=PARIS, scope="traceloop"),
        a_tool_span(2, arguments=PARIS, scope="traceloop", call_id="call_2"),
    ],
    ids=["later", "other arguments", "other tool", "other id"],
)
def test_two_instrumentations_see_two_calls(other: Span) -> None:
    assert len(groups(a_tool_span(1, arguments=PARIS, scope="openinference", call_id="call_1"), other)) == 2


def test_parents_in_a_circle_end_nowhere() -> None:
    spans = [
        a_tool_span(1, parent=2, call_id="call_1"),
        a_tool_span(2, parent=1, call_id="call_2"),
        a_span(3, parent=3),
    ]

    assert groups(*spans) == [[1], [2]]
    assert [span.span_id for span in Lineage(spans).ancestors(spans[2].key)] == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_1", at=5)],
            [[1, 2]],
            id="the same id is one call",
        ),
        pytest.param(
            [*[a_tool_span(number, arguments=PARIS, at=number) for number in (1, 2, 3)]],
            [[1], [2], [3]],
            id="repeats are real",
        ),
        pytest.param(
            [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=PARIS)],
            [[1], [2]],
            id="parallel repeats of one instrumentation are real",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, call_id="call_1", took=4),
                an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1, took=3),
                a_span(
                    3, {"mcp.method.name": "tools/call"}, name="MCP send tools/call get_weather", parent=2, at=2, took=2
                ),
                an_mcp_span(4, parent=3, kind=KIND_SERVER, at=3),
            ],
            [[1, 2, 3, 4]],
            id="agent client transport and server are one call",
        ),
        pytest.param(
            [a_tool_span(1, "plan"), a_tool_span(2, "get_weather", parent=1)],
            [[1], [2]],
            id="a tool that calls another tool is two calls",
        ),
        pytest.param(
            [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=ZURICH, parent=1)],
            [[1], [2]],
            id="a tool that calls itself for something else is two calls",
        ),
        pytest.param(
            [a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_2", parent=1)],
            [[1], [2]],
            id="two ids are two calls even if nested",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS),
                a_tool_span(2, arguments=PARIS | {"units": "metric"}, parent=1),
                a_tool_span(3, arguments={"at": PARIS}),
                a_tool_span(4, arguments={"at": PARIS | {"n": 1}}, parent=3),
            ],
            [[1, 2], [3, 4]],
            id="an inner layer may fill in defaults",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, took=9),
                an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1),
                an_mcp_span(3, parent=1, kind=KIND_CLIENT, at=3),
            ],
            [[1, 2, 3]],
            id="retries below one call are that call",
        ),
        pytest.param(
            [a_tool_span(1, "mcp__trip__get_weather"), an_mcp_span(2, parent=1, kind=KIND_CLIENT)],
            [[1, 2]],
            id="the agent may know the tool by a prefix",
        ),
        pytest.param(
            [an_mcp_span(2, parent=1, kind=KIND_SERVER, at=-3), a_tool_span(1)],
            [[1, 2]],
            id="a server whose clock is early is not the outermost",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, scope="openinference"),
                a_tool_span(2, arguments='{"city":"Paris"}', scope="traceloop", at=0.1),
            ],
            [[1, 2]],
            id="two instrumentations see one call",
        ),
        pytest.param(
            [
                *[
                    a_tool_span(number, arguments=PARIS, scope=scope, at=number / 10, took=5)
                    for number, scope in enumerate(["a", "b", "a", "b", "a", "b"], start=1)
                ]
            ],
            [[1, 2], [3, 4], [5, 6]],
            id="two instrumentations see parallel repeats one with one",
        ),
        pytest.param(
            [*[a_tool_span(number, arguments=PARIS, scope=scope) for number, scope in enumerate("abc", start=1)]],
            [[1, 2, 3]],
            id="three instrumentations see one call",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, scope="a", took=2),
                a_tool_span(2, arguments=ZURICH, scope="a", at=3, took=2),
                a_tool_span(3, scope="b", at=1),
                a_tool_span(4, scope="b", at=4),
                a_tool_span(5, "get_time", scope="b", at=4),
            ],
            [[1, 3], [2, 4], [5]],
            id="unknown arguments match by name and time",
        ),
        pytest.param(
            [a_tool_span(1, arguments={}, scope="a"), a_tool_span(2, arguments=PARIS, scope="b")],
            [[1], [2]],
            id="known arguments that differ are not matched for lack of better",
        ),
        pytest.param(
            [an_mcp_span(1, kind=KIND_CLIENT, took=2), an_mcp_span(2, kind=KIND_SERVER, trace=OTHER_TRACE, at=0.5)],
            [[1, 2]],
            id="a server that does not continue the trace is found by time",
        ),
        pytest.param(
            [
                *[
                    Span("1" * 32, f"{number:016x}", attributes=a_tool_span(1, arguments=PARIS).attributes, scope=scope)
                    for number, scope in enumerate("ab", start=1)
                ]
            ],
            [[1], [2]],
            id="spans without times do not overlap",
        ),
    ],
)
def test_which_spans_are_of_one_call(given: list[Any], expected: Any) -> None:
    """Spans, and the numbers of those of each call."""
    assert groups(*given) == expected
