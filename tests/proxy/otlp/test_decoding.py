"""Bodies to messages: encodings, types, limits; hostile ones are refused before they take memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from contextlib import suppress
from http import HTTPStatus

import pytest
from a2a_eval_proxy.otlp import decoding
from a2a_eval_proxy.otlp.decoding import BodyError, read_request
from a2a_eval_proxy.protocol.content_coding import granted
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from support.otlp import JSON, PROTOBUF, export_request

LIMIT = 64 * 1024
BODY = export_request(["a", "b"]).SerializeToString()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of values that a body may have, lowered."""
    monkeypatch.setattr(decoding, "MAX_FIELDS", 10_000)
    return decoding.MAX_FIELDS


def decode(body: bytes, content_type: str = PROTOBUF, content_encoding: str = "", max_bytes: int = LIMIT):
    return read_request(decompress(body, content_encoding, max_bytes), ExportTraceServiceRequest, content_type)


def decompress(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    return granted(decoding.decoding(body, content_encoding, max_bytes))


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


def gzip_of_zeros(size: int) -> bytes:
    """`size` zero bytes (a multiple of 1 MiB) as gzip, made without compressing them all: one block, repeated."""
    compressor = zlib.compressobj(wbits=-15)
    block = compressor.compress(bytes(1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    header = bytes.fromhex("1f8b0800000000000003")
    return header + block * (size >> 20)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size = len(content)
    digits = []
    while size > 0x7F:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *digits, size]) + content


# ── codings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("coding", "compressed"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("GZIP ", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", raw_deflate(BODY)),
        ("gzip", gzip.compress(BODY[:20]) + gzip.compress(BODY[20:])),
        ("gzip, deflate", zlib.compress(gzip.compress(BODY))),
    ],
)
def test_every_coding_yields_the_same_request(coding, compressed):
    assert decompress(compressed, coding, LIMIT) == BODY
    assert decode(compressed, content_encoding=coding) == export_request(["a", "b"])


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip;q=1", "snappy"])
def test_other_codings_are_unsupported(coding):
    with pytest.raises(BodyError, match="gzip, deflate"):
        decode(BODY, content_encoding=coding)


@pytest.mark.parametrize(
    ("coding", "body", "complaint"),
    [
        ("gzip", gzip.compress(BODY)[:-1], "truncated"),
        ("gzip", gzip.compress(BODY)[:30], "truncated"),
        ("gzip", b"", "truncated"),
        ("gzip", BODY, "not gzip"),
        ("gzip", gzip.compress(BODY)[:-8] + bytes(8), "not gzip"),
        ("gzip", gzip.compress(BODY) + gzip.compress(BODY)[:-1], "truncated"),
        ("gzip, deflate", zlib.compress(gzip.compress(BODY)[:-1]), "truncated"),
        ("deflate", zlib.compress(BODY)[:-3], "truncated"),
        ("deflate", b"\xff\xff\xff", "not deflate"),
    ],
)
def test_broken_compression_is_malformed(coding, body, complaint):
    with pytest.raises(BodyError, match=complaint):
        decode(body, content_encoding=coding)


def test_the_limit_is_inclusive_and_holds_for_what_is_decompressed():
    assert decompress(gzip.compress(bytes(1000)), "gzip", 1000) == bytes(1000)
    with pytest.raises(BodyError, match="exceeds 999 bytes when decompressed"):
        decompress(gzip.compress(bytes(1000)), "gzip", 999)
    assert decompress(bytes(1000), "", 1000) == bytes(1000)
    with pytest.raises(BodyError, match="exceeds 999 bytes"):
        decompress(bytes(1000), "", 999)


def test_a_gzip_bomb_of_a_gigabyte_is_never_unpacked():
    bomb = gzip_of_zeros(1 << 30)
    assert len(bomb) < 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(BodyError, match="exceeds"):
            decode(bomb, content_encoding="gzip", max_bytes=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


# ── protobuf ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [BODY[:-1], b"\xff", b"<html>", b"{}", b"\x0a\x05ab"])
def test_what_is_not_protobuf_is_malformed(body):
    with pytest.raises(BodyError, match="ExportTraceServiceRequest"):
        decode(body)


@pytest.mark.parametrize("unit", [b"\x8a\x00\x00", b"\x8a\x80\x00\x00"])
def test_as_many_messages_as_allowed_are_read(unit, few):
    """Each is an empty resource spans, with longer numbers than needed."""
    assert len(decode(unit * few).resource_spans) == few
    with pytest.raises(BodyError, match="too many values"):
        decode(unit * (few + 1))


@pytest.mark.parametrize(
    "unit",
    [
        field(1, b""),  # resource spans
        field(1, field(2, b"")),  # scope spans
        field(1, field(2, field(2, b""))),  # spans
        field(1, field(2, field(2, field(9, b"") * 9))),  # their attributes
        field(1, field(2, field(2, field(13, b"") * 9))),  # links
        b"\x8a\x00\x80\x00",  # an empty resource spans again, with longer numbers than needed
        field(9, b"xxx"),  # what is not read
    ],
)
def test_more_messages_than_memory_are_refused_before_parsing(unit, few):
    with pytest.raises(BodyError, match="too many values"):
        decode(unit * (few + 1), max_bytes=1 << 20)


def test_a_full_sized_body_of_ordinary_spans_is_not_refused(few):
    names = [f"tool {number}" for number in range(LIMIT // 100)]
    body = export_request(names).SerializeToString()
    assert LIMIT // 2 < len(body) < LIMIT
    assert [span.name for span in decode(body).resource_spans[0].scope_spans[0].spans] == names


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (field(1, field(2, b"x" * 10))[:-4], "truncated"),
        (b"\x0b", "wire type 3"),
        (b"\xff" * 10 + b"\x01", "more than ten bytes"),
        (b"\x09" + bytes(7), "truncated"),
        (b"\x0d" + bytes(3), "truncated"),
        (field(1, b"\x12\x7f"), "truncated"),
        (b"\x10\xff", "truncated"),
    ],
)
def test_the_walk_before_parsing_finds_broken_messages(body, complaint, few):
    with pytest.raises(BodyError, match=complaint):
        decode(field(2, bytes(2 * few)) + body)


def deep_value(arrays: int) -> bytes:
    """A request of messages that are four and twice `arrays` deep, the innermost with a field of each wire type."""
    value = b"\x10\x01" + b"\x21" + bytes(8) + b"\x7d" + bytes(4)
    for _ in range(arrays):
        value = field(5, field(1, value))  # an array in an array
    return field(1, field(1, field(1, field(2, value))))


def test_deep_values_are_refused_like_deep_json(few):
    large = field(2, bytes(2 * few))
    assert decode(large + deep_value(48)).resource_spans
    with pytest.raises(BodyError, match="ExportTraceServiceRequest"):
        decode(deep_value(200), max_bytes=1 << 20)
    with pytest.raises(BodyError, match="nested more than 100 deep"):
        decode(large + deep_value(49))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(body):
    for content_type in (PROTOBUF, JSON):
        for coding in ("", "gzip", "deflate"):
            with suppress(BodyError):
                decode(body, content_type, coding)


LARGE = export_request(["x" * (2 * decoding.MAX_FIELDS)]).SerializeToString()
"""So large that its fields are counted."""


@settings(max_examples=20)
@given(st.integers(0, 80), st.binary(max_size=4), st.integers(0, 4))
def test_a_damaged_request_is_a_request_or_refused(position, inserted, removed):
    for body in (BODY, LARGE):
        with suppress(BodyError):
            decode(body[:position] + inserted + body[position + removed :], max_bytes=2 * len(body))


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b"[]"] * 600_000) + b"]",
        b'{"":' * 1_100_000,
        b'{"resourceSpans":[' + b",".join([b'{"scopeSpans":[]}'] * 400_000) + b"]}",
    ],
)
def test_more_json_values_than_memory_are_refused_before_parsing(body):
    with pytest.raises(BodyError, match="too many values"):
        decode(body, JSON, max_bytes=1 << 24)


def test_brackets_within_texts_do_not_count():
    text = b'"' + b"{[," * 400_000 + b'"'
    assert decode(b'{"a":' + text + b"}", JSON, max_bytes=1 << 24) == ExportTraceServiceRequest()


# ── OTLP/JSON as exporters write it, and as none should ─────────────────────────────────────────────────────


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


def decode_json(body):
    return read_request(body, ExportTraceServiceRequest, JSON)


def one_span(**fields):
    """The span of a request with these fields."""
    request = decode_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [fields]}]}]}).encode())
    return request.resource_spans[0].scope_spans[0].spans[0]


def one_value(value):
    return one_span(attributes=[{"key": "k", "value": value}]).attributes[0].value


def refusal(**fields):
    with pytest.raises(BodyError) as caught:
        one_span(**fields)
    return str(caught.value).removeprefix("resourceSpans.scopeSpans.spans.")


def test_what_the_javascript_sdk_exports():
    span = decode_json(JAVASCRIPT).resource_spans[0].scope_spans[0].spans[0]
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
    request = decode_json(f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}'.encode())
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


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        *((body, "not JSON") for body in (b"", b"{", b"nope", b"\xff\xfe", b'{"a":NaN}', b'"\\')),
        *((body, r"^expected an object") for body in (b"[]", b"5", b"null", b'"text"')),
    ],
)
def test_what_is_not_an_object_of_json_is_refused(body, complaint):
    with pytest.raises(BodyError, match=complaint):
        decode_json(body)


@pytest.mark.parametrize("depth", [60, 400, 100_000])
def test_deep_json_is_refused(depth):
    value = '{"arrayValue":{"values":[' * depth + '{"intValue":1}' + "]}}" * depth
    body = '{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + value + "}]}}]}"
    with pytest.raises(BodyError) as caught:
        decode_json(body.encode())
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
        decode_json(JAVASCRIPT[:position] + inserted + JAVASCRIPT[position + removed :])
