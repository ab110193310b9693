"""Ids and times may differ between sides; nothing else may, and no id may be exchanged for another."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
from a2a_eval_proxy.check.compare.differences import READ_WHOLE, IdPairing, compare, interface_deltas, json_deltas
from a2a_eval_proxy.check.probe.answer import WireAnswer, WireMessage
from a2a_eval_proxy.check.probe.record import Interface
from a2a_eval_proxy.protocol.operations import Binding
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "error"]), inner),
    max_leaves=6,
)
IDS = st.lists(st.uuids(version=4).map(str), min_size=1, max_size=8, unique=True)


@given(IDS, st.text())
def test_ids_that_differ_at_the_same_places_are_the_same(ids: list[str], text: str) -> None:
    pairing, others = IdPairing(), {one: str(uuid.uuid4()) for one in ids}
    for one in [*ids, *ids]:
        assert pairing.same(one, others[one], "taskId")
        assert pairing.same(f"{text}: task {one}", f"{text}: task {others[one]}")


@given(IDS)
def test_an_id_in_place_of_another_is_a_difference(ids: list[str]) -> None:
    pairing = IdPairing()
    for one in ids:
        assert pairing.same(one, one[::-1], "id")
    assert not pairing.same(ids[0], "another", "id")
    assert not pairing.same("another", ids[0][::-1], "id")


def test_an_id_that_is_the_same_on_both_direct_sides_must_be_the_same_on_every_side() -> None:
    control = IdPairing()
    assert control.same("artifact-1", "artifact-1", "artifactId")
    assert not IdPairing(control).same("artifact-1", "artifact-2", "artifactId")
    assert IdPairing().same("artifact-1", "artifact-2", "artifactId")


def test_ids_without_form_are_known_in_texts() -> None:
    pairing = IdPairing()
    assert pairing.same("t-17", "t-18", "id")
    assert pairing.same("Task t-17 not found", "Task t-18 not found", "message")
    assert not pairing.same("Task t-17 not found", "Task t-19 not found", "message")


def test_times_may_differ_and_other_texts_may_not() -> None:
    pairing = IdPairing()
    assert pairing.same("at 2026-01-02T03:04:05.678Z", "at 2026-01-02T03:04:06Z")
    assert not pairing.same("at 2026-01-02T03:04:05Z", "on 2026-01-02T03:04:05Z")
    assert not pairing.same("sunny", "rainy", "text")
    assert not pairing.same("at 2026-01-02T03:04:05Z", "at noon")
    assert not pairing.same("search", "fetch", "name")  # a tool's


RPC, REST = (Interface(binding, "1.0", "http://a") for binding in (Binding.JSONRPC, Binding.HTTP_JSON))
GRPC = Interface(Binding.GRPC, "1.0", "a:1")


def test_interfaces_that_are_missing_added_or_moved_are_named() -> None:
    assert interface_deltas([RPC, REST], [RPC, REST]) == []
    ((name, missing),) = interface_deltas([RPC, GRPC], [RPC])
    assert (name, missing.what, missing.design) == ("GRPC 1.0", "interface", "")
    assert "--grpc" in missing.proxied
    ((name, added),) = interface_deltas([RPC], [RPC, REST])
    assert (name, added.direct, added.design) == ("HTTP+JSON 1.0", "(missing)", "")
    ((_, order),) = interface_deltas([RPC, REST], [REST, RPC])
    assert (order.direct, order.proxied) == ("JSONRPC 1.0, HTTP+JSON 1.0", "HTTP+JSON 1.0, JSONRPC 1.0")


def test_what_arrives_of_a_body_that_is_cut_off_is_by_design_over_the_real_proxy() -> None:
    cut = httpx.RemoteProtocolError("closed")
    direct = WireAnswer(200, messages=[WireMessage(b'{"task')], failure=cut)
    (delta,) = compare(direct, WireAnswer(200, failure=cut), IdPairing())
    assert (delta.what, delta.proxied, delta.design) == ("body", "none", READ_WHOLE)
    assert {each.what for each in compare(direct, WireAnswer(200), IdPairing())} == {"end", "body"}


@given(JSON, JSON)
def test_values_differ_if_they_are_not_equal(one: Any, other: Any) -> None:
    assert list(json_deltas("body", one, one, IdPairing())) == []
    answers = [WireAnswer(200, messages=[WireMessage(json.dumps(value).encode())]) for value in (one, other)]
    assert (compare(*answers, IdPairing()) == []) is (one == other)


def test_events_that_a_proxy_holds_back_to_the_end_are_named() -> None:
    """A proxy that buffers a stream changes none of its bytes."""

    def stream(spread_s: float) -> WireAnswer:
        return WireAnswer(200, messages=[WireMessage(b"a"), WireMessage(b"b", at=spread_s)], streams=True)

    (delta,) = compare(stream(3.0), stream(0.01), IdPairing())
    assert (delta.what, delta.direct, delta.proxied) == ("times of events", "over 3.0 s", "over 0.0 s")
    assert compare(stream(3.0), stream(1.0), IdPairing()) == []
    assert compare(stream(0.9), stream(0.0), IdPairing()) == []
