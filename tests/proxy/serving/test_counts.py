"""Counts of serving processes add up in the main process."""

from __future__ import annotations

import json

from a2a_eval_proxy.telemetry.counters import Metrics, add_counts, take_counts
from hypothesis import given
from hypothesis import strategies as st

events = st.lists(
    st.one_of(
        st.tuples(st.just("response"), st.sampled_from([200, 404, "none"])),
        st.tuples(st.just("client_error"), st.sampled_from(["bad_request", "body_timeout"])),
        st.tuples(st.just("duration"), st.floats(0, 400)),
        st.tuples(st.just("send"), st.integers(0, 1)),
    ),
    max_size=30,
)


def count(metrics: Metrics, kind: str, value: float | str) -> None:
    match kind:
        case "response":
            metrics.requests += 1
            metrics.responses[int(value) if isinstance(value, int) else str(value)] += 1
        case "client_error":
            metrics.client_errors[str(value)] += 1
        case "duration":
            metrics.request_s.add(float(value))
            metrics.first_byte_s.add(float(value) / 2)


@given(events)
def test_what_processes_count_is_what_one_would_have_counted(happened: list[tuple[str, float | str]]) -> None:
    everything, main, processes = Metrics(), Metrics(), [Metrics(), Metrics()]
    for number, (kind, value) in enumerate(happened):
        if kind == "send":
            add_counts(main, json.loads(json.dumps(take_counts(processes[int(value)]))), ())
        else:
            count(everything, kind, value)
            count(processes[number % 2], kind, value)
    for process in processes:
        add_counts(main, json.loads(json.dumps(take_counts(process))), ())
    assert main.requests == everything.requests
    assert main.responses == everything.responses
    assert main.client_errors == everything.client_errors
    assert main.request_s.counts == everything.request_s.counts
    assert main.first_byte_s.counts == everything.first_byte_s.counts
    assert abs(main.request_s.total_s - everything.request_s.total_s) < 1e-6
    assert processes[0].requests == processes[1].requests == 0
