"""Identifiers."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta

from a2a_eval_proxy.ids import new_run_name, new_turn_id, trace_of
from a2a_eval_proxy.protocol.headers import read_request


def test_turn_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_turn_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{32}", turn_id) for turn_id in ids)
    assert [turn_id[:12] for turn_id in ids] == sorted(turn_id[:12] for turn_id in ids)


def test_a_new_trace_is_a_valid_one() -> None:
    for _ in range(100):
        trace_id, span_id = trace_of(new_turn_id())
        header = f"00-{trace_id}-{span_id}-01".encode()
        assert read_request([(b"traceparent", header)]).trace_context == (trace_id, span_id)


def test_a_forked_process_makes_ids_of_its_own() -> None:
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, new_turn_id().encode())
        os._exit(0)
    assert os.read(reader, 100).decode()[12:] != new_turn_id()[12:]
    os.wait()
    os.close(reader)
    os.close(writer)


def test_a_name_has_the_prefix_and_the_time_to_the_millisecond() -> None:
    named = datetime.strptime(new_run_name("my suite"), "my suite-%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    assert datetime.now(UTC) - timedelta(minutes=1) < named <= datetime.now(UTC)
