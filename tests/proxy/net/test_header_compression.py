"""Header sections against hpack, which is the other side in both directions."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.net.header_compression import NO_TABLE, Fields, HeaderDecoder, encoded
from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple
from hypothesis import example, given
from hypothesis import strategies as st

PLENTY = 2**20
FIELD = st.tuples(
    st.sampled_from([b":path", b":status", b"content-type", b"authorization", b"x", b"grpc-status"]) | st.binary(),
    st.sampled_from([b"", b"200", b"application/grpc", b"0", b"a" * 127, b"b" * 300]) | st.binary(),
)
SECTION = st.tuples(
    st.lists(st.tuples(FIELD, st.booleans())),
    st.booleans(),
    st.none() | st.integers(0, 4096),
)
"""Fields, and which of them are secret; whether texts are compressed; the size of the table from here on."""


@given(st.lists(SECTION, max_size=8))
def test_what_hpack_sends_is_read(sections):
    peer, reader = Encoder(), HeaderDecoder(PLENTY)
    for fields, huffman, size in sections:
        if size is not None:
            peer.header_table_size = size
        sent = [NeverIndexedHeaderTuple(*field) if secret else field for field, secret in fields]
        assert reader.decode(peer.encode(sent, huffman=huffman)) == [field for field, _ in fields]


@given(st.lists(st.lists(FIELD), max_size=4))
@example([[(b"x", b"a" * size)] for size in (126, 127, 128, 254, 255, 256, 16_000)])
def test_what_is_sent_is_read_by_hpack(sections):
    peer, start = Decoder(), NO_TABLE
    peer.max_allowed_table_size = 0  # its setting; a sender that does not follow it is refused
    for fields in sections:
        read = peer.decode(start + encoded(fields), raw=True)
        start = b""
        assert read == fields
        assert not peer.header_table.dynamic_entries


def test_what_is_sent_is_never_indexed_by_those_that_forward_it():
    (field,) = Decoder().decode(encoded([(b"authorization", b"Bearer secret")]), raw=True)
    assert isinstance(field, NeverIndexedHeaderTuple)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_junk_is_read_as_hpack_reads_it(blocks):
    peer, reader = Decoder(PLENTY), HeaderDecoder(PLENTY)
    for block in blocks:
        theirs: Fields | None
        try:
            theirs = [(bytes(name), bytes(value)) for name, value in peer.decode(block, raw=True)]
        except HPACKError:
            theirs = None
        try:
            ours: Fields | None = reader.decode(block)
        except ValueError:
            ours = None
        assert ours == theirs
        if ours is None:
            return


@pytest.mark.parametrize("huffman", [True, False])
def test_a_section_that_is_cut_off(huffman):
    fields = [(b":path", b"/a"), (b"x-long", b"v" * 200), (b"content-type", b"application/grpc")]
    block = Encoder().encode(fields, huffman=huffman)
    for size in range(len(block)):
        try:
            read = HeaderDecoder(PLENTY).decode(block[:size])
        except ValueError:
            continue
        assert read == fields[: len(read)] != fields


def test_a_section_over_the_limit_is_refused_before_it_is_whole():
    peer = Encoder()
    block = peer.encode([(b"x", b"v" * 1000)])
    again = peer.encode([(b"x", b"v" * 1000)]) * 100_000
    reader = HeaderDecoder(10_000)
    reader.decode(block)
    with pytest.raises(ValueError, match="more than 10000 bytes"):
        reader.decode(again)
