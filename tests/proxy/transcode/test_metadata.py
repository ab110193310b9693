"""Headers and metadata: what arrives is what gRPC can carry, in order, and nothing of the HTTP message."""

from __future__ import annotations

import base64

import grpc
from a2a.utils.errors import A2AError
from a2a_eval_proxy.net.http_client import UpstreamError
from a2a_eval_proxy.transcode.handler import RefusedCall, problem_of
from a2a_eval_proxy.transcode.metadata import to_headers, to_metadata
from hypothesis import example, given
from hypothesis import strategies as st

NAMES = st.one_of(
    st.sampled_from(["accept", "content-type", "host", "te", "grpc-timeout", "a2a-version", "a2a-extensions", "x-bin"]),
    st.from_regex(r"[!#$%&'*+.^_`|~0-9a-z-]{1,12}(-bin)?", fullmatch=True),
).map(str.encode)
VALUES = st.one_of(st.binary(max_size=12), st.text(st.characters(codec="ascii"), max_size=12).map(str.encode))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
@example([(b"x-bin", b"AP8"), (b"x-bin", b"!"), (b"x", "ä".encode()), (b"y", b"1"), (b"y", b"2")])
def test_metadata_is_what_grpc_accepts(headers):
    metadata = to_metadata(headers)
    for key, value in metadata:
        assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
        assert not key.startswith(("grpc-", "content-", "host", "te\0"))
        assert isinstance(value, bytes if key.endswith("-bin") else str)
        assert isinstance(value, bytes) or (value.isascii() and (value.isprintable() or not value))
    texts = [(key.encode(), value.encode()) for key, value in metadata if isinstance(value, str)]
    assert [item for item in headers if item in texts] == texts


@given(st.lists(st.binary(max_size=20), max_size=4))
def test_binary_values_survive_both_ways(values):
    metadata = [("raw-bin", value) for value in values]
    headers = to_headers(metadata)
    assert [base64.b64decode(value) for _, value in headers] == values
    assert to_metadata(headers) == metadata


@given(st.sampled_from(list(grpc.StatusCode)), st.none() | st.text(max_size=40), st.text(max_size=10))
def test_every_status_has_an_error(code, details, method):
    problem = problem_of(code, details, method)
    assert isinstance(problem, A2AError | UpstreamError | RefusedCall)
    message = problem.message if isinstance(problem, A2AError | RefusedCall) else str(problem)
    assert (details or code.name) in message
