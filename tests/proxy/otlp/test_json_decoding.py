"""OTLP/JSON as exporters write it, and as none should."""

from __future__ import annotations

import json
from contextlib import suppress
from http import HTTPStatus

import pytest
from a2a_eval_proxy.otlp.decoding import JSON, BodyError, read_request
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

# Sent by @opentelemetry/exporter-trace-otlp-http 0.223 with attributeValueLengthLimit 12: the emoji that began at the
# twelfth place was cut in half.
JAVASCRIPT = (
    rb'{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"unknown_service:node"'
    rb'}},{"key":"telemetry.sdk.language","value":{"stringValue":"nodejs"}}],"droppedAttributesCount":0},"scopeSpans":['
    rb'{"scope":{"name":"agent","version":"1.0"},"spans":[{"traceId":"bdbb9bb7c1e048d4967b4bd43ecaced2","spanId":"922a9'
    rb'c75fea940a4","parentSpanId":"701b5e00164d5544","name":"execute_tool get_weather","kind":1,"startTimeUnixNano":"1'
    rb'795252596254000000","endTimeUnixNano":"1795252596254227220","attributes":[{"key":"gen_ai.operation.name","value"'
    rb':{"stringValue":"execute_tool"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":42}},{"key":"score","val'
    rb'ue":{"doubleValue":0.5}},{"key":"cached","value":{"boolValue":true}},{"key":"tags","value":{"arrayValue":{"value'
    rb's":[{"stringValue":"a"},{"stringValue":"b"}]}}},{"key":"cut","value":{"stringValue":"01234567890\ud83d"}}],"drop'
    rb'pedAttributesCount":0,"events":[{"attributes":[{"key":"exception.message","value":{"stringValue":"boom"}}],"name'
    rb'":"exception","timeUnixNano":"1795252596254159769","droppedAttributesCount":0}],"droppedEventsCount":0,"status":'
    rb'{"code":2,"message":"boom"},"links":[],"droppedLinksCount":0,"flags":257}]}]}]}'
)


def decode_json(body, request_type):
    return read_request(body, request_type, JSON)


def decode(content, request_type=ExportTraceServiceRequest):
    return decode_json(json.dumps(content).encode(), request_type)


def one_span(**fields):
    """The span of a request with these fields."""
    request = decode({"resourceSpans": [{"scopeSpans": [{"spans": [fields]}]}]})
    return request.resource_spans[0].scope_spans[0].spans[0]


def one_value(value):
    return one_span(attributes=[{"key": "k", "value": value}]).attributes[0].value


def refusal(**fields):
    with pytest.raises(BodyError) as caught:
        one_span(**fields)
    return str(caught.value).removeprefix("resourceSpans.scopeSpans.spans.")


def test_what_the_javascript_sdk_exports():
    span = decode_json(JAVASCRIPT, ExportTraceServiceRequest).resource_spans[0].scope_spans[0].spans[0]
    assert span.trace_id.hex() == "bdbb9bb7c1e048d4967b4bd43ecaced2"
    assert (span.span_id.hex(), span.parent_span_id.hex()) == ("922a9c75fea940a4", "701b5e00164d5544")
    assert (span.kind, span.flags) == (Span.SPAN_KIND_INTERNAL, 257)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 227_220
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "boom")
    assert span.events[0].attributes[0].value.string_value == "boom"
    values = {attribute.key: attribute.value for attribute in span.attributes}
    assert values["gen_ai.usage.input_tokens"] == AnyValue(int_value=42)
    assert values["score"] == AnyValue(double_value=0.5)
    assert values["cached"] == AnyValue(bool_value=True)
    assert [value.string_value for value in values["tags"].array_value.values] == ["a", "b"]
    assert values["cut"].string_value == "01234567890\ufffd"


def test_only_halves_of_characters_are_replaced():
    text = json.dumps({"a": "😀", "b": "\ud83d", "c": "\udc00\ud83d", "d": "\\ud83d", "e": "\ud83d\n", "f": "é"})
    spans = ",".join(f'{{"name": {json.dumps(value)}}}' for value in json.loads(text).values())
    request = decode_json(
        f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}'.encode(), ExportTraceServiceRequest
    )
    names = [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert names == ["😀", "\ufffd", "\ufffd\ufffd", "\\ud83d", "\ufffd\n", "é"]


@pytest.mark.parametrize("given_id", ["0AfF" * 8, "0aff" * 8])
def test_ids_are_hex_of_any_case(given_id):
    assert one_span(traceId=given_id).trace_id == bytes.fromhex("0aff" * 8)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"traceId": "xyz"}, "traceId: expected hex digits, got 'xyz'"),
        ({"traceId": "abc"}, "traceId: expected hex digits, got 'abc'"),
        ({"traceId": "é" * 32}, "traceId: expected hex digits, got"),
        ({"traceId": 5}, "traceId: "),
        ({"name": ["n"]}, "name: expected string"),
        ({"name": True}, "name: expected string"),
        ({"startTimeUnixNano": "-1"}, "startTimeUnixNano: Value out of range"),
        ({"startTimeUnixNano": "9" * 5000}, "startTimeUnixNano: Couldn't parse"),
        ({"startTimeUnixNano": 2**64}, "startTimeUnixNano: Value out of range"),
        ({"startTimeUnixNano": 1.5}, "startTimeUnixNano: Couldn't parse integer: 1.5"),
        ({"attributes": {"a": "b"}}, "attributes: repeated field attributes must be in []"),
        ({"attributes": [5]}, "attributes: "),
        ({"attributes": [{"key": "k"}, {"value": {"intValue": "1.5"}}]}, "attributes.value: Couldn't parse"),
        ({"attributes": [{"value": {"boolValue": "true"}}]}, "attributes.value: Expected true or false"),
    ],
)
def test_a_refusal_names_the_place_and_what_belongs_there(fields, complaint):
    assert refusal(**fields).startswith(complaint)


def test_a_refusal_is_short_however_long_the_value():
    assert len(refusal(traceId="x" * 100_000)) < 200
    assert len(refusal(startTimeUnixNano="x" * 100_000)) < 400


@pytest.mark.parametrize("body", [b"", b"{", b"nope", b"\xff\xfe", b'{"a":NaN}', b'"\\'])
def test_what_is_not_json_is_refused(body):
    with pytest.raises(BodyError, match="not JSON"):
        decode_json(body, ExportTraceServiceRequest)


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"text"'])
def test_what_is_not_an_object_is_refused(body):
    with pytest.raises(BodyError, match=r"^expected an object"):
        decode_json(body, ExportTraceServiceRequest)


@pytest.mark.parametrize("depth", [60, 400, 100_000])
def test_deep_json_is_refused(depth):
    value = '{"arrayValue":{"values":[' * depth + '{"intValue":1}' + "]}}" * depth
    body = '{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + value + "}]}}]}"
    with pytest.raises(BodyError) as caught:
        decode_json(body.encode(), ExportTraceServiceRequest)
    assert caught.value.status == HTTPStatus.BAD_REQUEST


def test_nesting_within_the_limit_is_read():
    value = {"intValue": 1}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    decoded = one_value(value)
    for _ in range(40):
        decoded = decoded.array_value.values[0]
    assert decoded.int_value == 1


# ── nothing but its own error ───────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, len(JAVASCRIPT)), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_json_is_a_request_or_refused(position, inserted, removed):
    with suppress(BodyError):
        decode_json(JAVASCRIPT[:position] + inserted + JAVASCRIPT[position + removed :], ExportTraceServiceRequest)
