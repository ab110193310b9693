"""The fuzzer's reference: it allows what the profile lists, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from fuzz.differential.allowed import OWN, RULES, Case, differences
from fuzz.differential.http1 import Http1Reader
from fuzz.differential.plain_scripts import plain
from fuzz.differential.rounds import DifferentialRound
from fuzz.differential.script import Meeting, Seen, Side

PROFILE = (Path(__file__).parents[3] / "proxy/docs/profile.md").read_text("utf-8")
TOKEN = b"~000000000001~"
FIELDS = [(b"host", b"(asked)"), (b"x-a", b"1"), (b"x-a", b"2"), (b"traceparent", b"own")]
ANSWER = [(b"Set-Cookie", b"a"), (b"Set-Cookie", b"b"), (b"Content-Length", b"4")]


def seen() -> dict[Side, Seen]:
    request = Seen(b"POST /x?", [*FIELDS], [], bytearray(b"sent"), [], "whole")
    return {Side.AGENT: request, Side.CLIENT: Seen(b"200", [*ANSWER], [], bytearray(b"said"), [], "whole")}


def found(proxied: dict[Side, Seen], direct: dict[Side, Seen] | None = None) -> list[str]:
    one = direct or seen()
    exchange = plain(Random(1), TOKEN)
    return differences(Case(exchange, "http/1.1", True, one[Side.CLIENT], one[Side.AGENT], proxied))


@pytest.mark.parametrize("line", sorted({*(line for line, _ in RULES), *OWN}))
def test_each_rule_is_a_line_of_the_profile(line: str) -> None:
    assert re.search(rf'<a id="{line.lower()}"></a>{line} ', PROFILE)


def test_what_is_equal_does_not_differ() -> None:
    assert found(seen()) == []


@pytest.mark.parametrize(
    ("side", "change"),
    [
        (Side.AGENT, {"start": b"POST /x"}),
        (Side.AGENT, {"fields": FIELDS[:2]}),
        (Side.AGENT, {"fields": [FIELDS[0], FIELDS[2], FIELDS[1], FIELDS[3]]}),
        (Side.AGENT, {"fields": [*FIELDS, (b"x-more", b"")]}),
        (Side.AGENT, {"body": bytearray(b"sen")}),
        (Side.AGENT, {"trailers": [(b"x", b"1")]}),
        (Side.AGENT, {"end": "cut"}),
        (Side.CLIENT, {"start": b"201"}),
        (Side.CLIENT, {"fields": ANSWER[1:]}),
        (Side.CLIENT, {"fields": [(b"set-cookie", b"a"), *ANSWER[1:]]}),
        (Side.CLIENT, {"fields": [*ANSWER[:2], (b"Content-Length", b"5")]}),
        (Side.CLIENT, {"interim": [b"103"]}),
        (Side.CLIENT, {"body": bytearray(b"same")}),
        (Side.CLIENT, {"end": "cut"}),
    ],
)
def test_any_other_difference_is_found(side: Side, change: dict[str, object]) -> None:
    proxied = seen()
    for name, value in change.items():
        setattr(proxied[side], name, value)
    assert len(found(proxied)) == 1


def test_a_round_is_a_function_of_its_seed() -> None:
    first, again, other = (DifferentialRound(seed, 0, connections=10).plans() for seed in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_a_reader_sees_the_same_however_bytes_are_cut(size: int) -> None:
    meeting = Meeting(plain(Random(1), TOKEN))
    reader = Http1Reader(lambda start, fields: (meeting, Side.CLIENT, True))
    data = (
        b"HTTP/1.1 200 OK\r\na:  b \r\ntransfer-encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\nt: 1\r\n\r\nmore"
    )
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    fields = [(b"a", b"b"), (b"transfer-encoding", b"chunked")]
    assert meeting.seen[Side.CLIENT] == Seen(b"200", fields, [], bytearray(b"abc"), [(b"t", b"1")], "whole")
    assert reader.excess == b"more"
