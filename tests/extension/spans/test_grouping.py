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


def test_the_same_id_is_one_call() -> None:
    assert groups(a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_1", at=5)) == [[1, 2]]


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


def test_repeats_are_real() -> None:
    spans = [a_tool_span(number, arguments=PARIS, at=number) for number in (1, 2, 3)]

    assert groups(*spans) == [[1], [2], [3]]


def test_parallel_repeats_of_one_instrumentation_are_real() -> None:
    assert groups(a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=PARIS)) == [[1], [2]]


def test_agent_client_transport_and_server_are_one_call() -> None:
    spans = [
        a_tool_span(1, arguments=PARIS, call_id="call_1", took=4),
        an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1, took=3),
        a_span(3, {"mcp.method.name": "tools/call"}, name="MCP send tools/call get_weather", parent=2, at=2, took=2),
        an_mcp_span(4, parent=3, kind=KIND_SERVER, at=3),
    ]

    assert groups(*spans) == [[1, 2, 3, 4]]


def test_spans_between_two_observations_may_be_anything_but_an_agent() -> None:
    outer, inner = a_tool_span(1, call_id="call_1"), a_tool_span(4, parent=3)
    http = [a_span(2, {"http.request.method": "POST"}, parent=1), a_span(3, {}, parent=2)]
    agent = [a_span(2, {"gen_ai.operation.name": "invoke_agent"}, parent=1), a_span(3, {}, parent=2)]

    assert groups(outer, *http, inner) == [[1, 4]]
    assert groups(outer, *agent, inner) == [[1], [4]]


def test_a_tool_that_calls_another_tool_is_two_calls() -> None:
    assert groups(a_tool_span(1, "plan"), a_tool_span(2, "get_weather", parent=1)) == [[1], [2]]


def test_a_tool_that_calls_itself_for_something_else_is_two_calls() -> None:
    spans = [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=ZURICH, parent=1)]

    assert groups(*spans) == [[1], [2]]


def test_two_ids_are_two_calls_even_if_nested() -> None:
    assert groups(a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_2", parent=1)) == [[1], [2]]


def test_an_inner_layer_may_fill_in_defaults() -> None:
    spans = [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=PARIS | {"units": "metric"}, parent=1)]
    inside = [a_tool_span(3, arguments={"at": PARIS}), a_tool_span(4, arguments={"at": PARIS | {"n": 1}}, parent=3)]

    assert groups(*spans, *inside) == [[1, 2], [3, 4]]


def test_retries_below_one_call_are_that_call() -> None:
    spans = [
        a_tool_span(1, arguments=PARIS, took=9),
        an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1),
        an_mcp_span(3, parent=1, kind=KIND_CLIENT, at=3),
    ]

    assert groups(*spans) == [[1, 2, 3]]


def test_the_agent_may_know_the_tool_by_a_prefix() -> None:
    spans = [a_tool_span(1, "mcp__trip__get_weather"), an_mcp_span(2, parent=1, kind=KIND_CLIENT)]

    assert groups(*spans) == [[1, 2]]


def test_a_server_whose_clock_is_early_is_not_the_outermost() -> None:
    assert groups(an_mcp_span(2, parent=1, kind=KIND_SERVER, at=-3), a_tool_span(1)) == [[1, 2]]


def test_two_instrumentations_see_one_call() -> None:
    one = a_tool_span(1, arguments=PARIS, scope="openinference")
    other = a_tool_span(2, arguments='{"city":"Paris"}', scope="traceloop", at=0.1)

    assert groups(one, other) == [[1, 2]]


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


def test_two_instrumentations_see_parallel_repeats_one_with_one() -> None:
    spans = [
        a_tool_span(number, arguments=PARIS, scope=scope, at=number / 10, took=5)
        for number, scope in enumerate(["a", "b", "a", "b", "a", "b"], start=1)
    ]

    assert groups(*spans) == [[1, 2], [3, 4], [5, 6]]


def test_three_instrumentations_see_one_call() -> None:
    spans = [a_tool_span(number, arguments=PARIS, scope=scope) for number, scope in enumerate("abc", start=1)]

    assert groups(*spans) == [[1, 2, 3]]


def test_unknown_arguments_match_by_name_and_time() -> None:
    spans = [
        a_tool_span(1, arguments=PARIS, scope="a", took=2),
        a_tool_span(2, arguments=ZURICH, scope="a", at=3, took=2),
        a_tool_span(3, scope="b", at=1),
        a_tool_span(4, scope="b", at=4),
        a_tool_span(5, "get_time", scope="b", at=4),
    ]

    assert groups(*spans) == [[1, 3], [2, 4], [5]]


def test_known_arguments_that_differ_are_not_matched_for_lack_of_better() -> None:
    spans = [a_tool_span(1, arguments={}, scope="a"), a_tool_span(2, arguments=PARIS, scope="b")]

    assert groups(*spans) == [[1], [2]]


def test_a_server_that_does_not_continue_the_trace_is_found_by_time() -> None:
    client = an_mcp_span(1, kind=KIND_CLIENT, took=2)
    server = an_mcp_span(2, kind=KIND_SERVER, trace=OTHER_TRACE, at=0.5)

    assert groups(client, server) == [[1, 2]]


def test_spans_without_times_do_not_overlap() -> None:
    spans = [
        Span("1" * 32, f"{number:016x}", attributes=a_tool_span(1, arguments=PARIS).attributes, scope=scope)
        for number, scope in enumerate("ab", start=1)
    ]

    assert groups(*spans) == [[1], [2]]


def test_parents_in_a_circle_end_nowhere() -> None:
    spans = [
        a_tool_span(1, parent=2, call_id="call_1"),
        a_tool_span(2, parent=1, call_id="call_2"),
        a_span(3, parent=3),
    ]

    assert groups(*spans) == [[1], [2]]
    assert [span.span_id for span in Lineage(spans).ancestors(spans[2].key)] == []
