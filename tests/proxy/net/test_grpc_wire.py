"""Messages, compression and statuses of gRPC as bytes."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from a2a_eval_proxy.net.grpc_wire import (
    GrpcMessage,
    GrpcStatus,
    MessageReader,
    MessageTooLargeError,
    decoded_value,
    encoded_value,
    ending,
    offering_readable,
    status_of,
)
from a2a_eval_proxy.net.http2_streams import Fields
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 1_000


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    """The body, cut at these places."""
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(places)]


def coded(coding: bytes) -> Fields:
    """The head of what holds messages compressed so."""
    return [(b":status", b"200"), (b"grpc-encoding", coding)]


@given(st.lists(st.binary(max_size=60)), st.binary(max_size=4), st.lists(st.integers(0, 2_000)))
def test_messages_are_the_same_however_they_are_cut(payloads: list[bytes], incomplete: bytes, cuts: list[int]) -> None:
    frames = [GrpcMessage(payload).frame for payload in payloads]
    reader = MessageReader(LIMIT)
    read = [one.frame for piece in pieces(b"".join(frames) + incomplete, cuts) for one in reader.feed(piece)]
    assert read == frames
    assert reader.rest() == incomplete
    assert reader.rest() == b""


@given(st.integers(LIMIT + 1, 2**32 - 1))
def test_a_message_beyond_the_limit_is_refused_at_its_prefix(size: int) -> None:
    reader = MessageReader(LIMIT)
    prefix = b"\0" + size.to_bytes(4, "big")
    assert list(reader.feed(prefix[:4])) == []
    with pytest.raises(MessageTooLargeError):
        list(reader.feed(prefix[4:]))


def test_a_message_that_comes_byte_by_byte_takes_the_memory_of_its_bytes() -> None:
    size = 50_000
    reader = MessageReader(size)
    assert list(reader.feed(GrpcMessage(bytes(size)).frame[:5])) == []
    tracemalloc.start()
    for _ in range(size - 1):
        assert not list(reader.feed(b"\0"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * size


@given(st.binary(max_size=LIMIT))
def test_what_is_compressed_is_read(payload: bytes) -> None:
    for coding, compressed in ((b"gzip", gzip.compress(payload)), (b"deflate", zlib.compress(payload))):
        whole = GrpcMessage(compressed, flags=1)
        assert whole.content(coded(coding), LIMIT) == payload
        with pytest.raises(ValueError, match="truncated"):
            GrpcMessage(compressed[:-1], flags=1).content(coded(coding), LIMIT)
        with pytest.raises(ValueError, match="more than one member"):
            GrpcMessage(compressed * 2, flags=1).content(coded(coding), 2 * LIMIT)
        for other in (
            zlib.compress(payload, wbits=-15),
            zlib.compress(payload) if coding == b"gzip" else gzip.compress(payload),
        ):
            with pytest.raises(ValueError, match=f"not {coding.decode()}"):
                GrpcMessage(other, flags=1).content(coded(coding), LIMIT)
        with pytest.raises(ValueError, match="which the proxy cannot read"):
            whole.content(coded(b"snappy"), LIMIT)
    assert GrpcMessage(payload).content(coded(b"gzip"), LIMIT) == payload


def test_a_small_message_that_unpacks_to_a_large_one_is_refused() -> None:
    compressed = gzip.compress(bytes(10_000_000))
    with pytest.raises(MessageTooLargeError):
        GrpcMessage(compressed, flags=1).content(coded(b"gzip"), LIMIT)


@given(st.sampled_from(GrpcStatus), st.text(st.characters(exclude_categories=["Cs"])), st.binary())
def test_statuses_arrive_as_they_were_sent(status: GrpcStatus, message: str, details: bytes) -> None:
    fields = ending(status, message, details)
    assert status_of(fields) == (status, message)
    assert all(0x20 <= byte < 0x7F for name, value in fields for byte in value)
    assert decoded_value(encoded_value(details)) == details


@pytest.mark.parametrize("value", [b"-1", b"17", b"007", b"1_0", b"", b"\xc2\xb2", b"9" * 5_000])
def test_a_status_that_is_none_is_unknown(value: bytes) -> None:
    assert status_of([(b"grpc-status", value)]) == (GrpcStatus.UNKNOWN, "")


def test_only_compression_that_the_proxy_reads_is_offered() -> None:
    fields = [(b"grpc-accept-encoding", b"identity, snappy,gzip"), (b"a", b"snappy")]
    assert offering_readable(fields) == [(b"grpc-accept-encoding", b"identity,gzip"), (b"a", b"snappy")]
