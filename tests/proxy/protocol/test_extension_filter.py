"""Taking the extension out of bodies: the whole, nothing else, and not a byte re-encoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from a2a_eval_proxy.protocol.extension_fast_path import cut_usual
from a2a_eval_proxy.protocol.extension_filter import (
    UnreadableError,
    UnreadBodyFilter,
    decoded_once,
    may_hold_extension,
    names_extension,
    strip,
    strip_event,
)
from a2a_eval_proxy.protocol.sse import SseSplitter
from a2a_tool_capture import METADATA_KEY, URI, json_limits
from a2a_tool_capture.spec import BASE_URI
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.junk import almost_events, json_values
from support.recordings import Recording, anonymous, names

OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")
PAIRS = [name.removesuffix("-ext") for name in names("*-ext")]


def nobody(_: str) -> bool:
    return False


def guard(content: bytes) -> bytes:
    """What the scanner leaves of `content`; the cutter leaves the same, where it takes over."""
    scanned = strip(content, nobody)
    assert strip(content, None, decoded_once(content)) == scanned
    return content if scanned == content else scanned


def body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def stripped(value: Any) -> Any:
    return json.loads(guard(body(value)))


LEFT = {"artifactId": "a", "parts": [{"text": "x"}]}


def artifact(**more: Any) -> dict[str, Any]:
    return {**LEFT, "metadata": {METADATA_KEY: [{"name": "x"}]}, "extensions": [URI], **more}


# ── recorded traffic ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", PAIRS)
def test_a_guarded_answer_is_the_one_to_a_client_that_never_asked(name: str) -> None:
    """Byte for byte, but for ids and times, which differ between any two answers."""
    asked, plain = Recording.load(f"{name}-ext"), Recording.load(name)
    assert METADATA_KEY.encode() in asked.response_body
    if asked.streams:
        got = [guard(event.data) for event in SseSplitter(1_000_000).feed(asked.response_body)]
        want = [event.data for event in SseSplitter(1_000_000).feed(plain.response_body)]
    else:
        got, want = [guard(asked.response_body)], [plain.response_body]
    assert anonymous(b"\n".join(got).decode()) == anonymous(b"\n".join(want).decode())


def test_there_are_pairs_to_compare() -> None:
    assert len(PAIRS) == 32


@pytest.mark.parametrize(
    "name", ["jsonrpc-v1.0-list", "jsonrpc-v1.0-get", "rest-v1.0-get", "rest-v0.3-get", "jsonrpc-v0.3-get"]
)
def test_answers_about_tasks_that_were_asked_for_elsewhere(name: str) -> None:
    recorded = Recording.load(name).response_body
    assert METADATA_KEY.encode() in recorded or "list" in name
    assert URI.encode() not in guard(recorded)


def test_a_body_without_the_extension_is_the_same_object(subtests: pytest.Subtests) -> None:
    for name in [name for name in names() if URI.encode() not in Recording.load(name).response_body]:
        with subtests.test(name):
            recorded = Recording.load(name).response_body
            assert guard(recorded) is recorded


# ── where it is taken out ───────────────────────────────────────────────────────────────────────────────────

HOLDERS: dict[str, Callable[[Any], Any]] = {
    "bare task": lambda a: {"id": "t", "status": {}, "artifacts": [a]},
    "task": lambda a: {"task": {"id": "t", "artifacts": [a]}},
    "update": lambda a: {"artifactUpdate": {"taskId": "t", "artifact": a, "append": True}},
    "update in proto names": lambda a: {"artifact_update": {"task_id": "t", "artifact": a}},
    "0.3 update": lambda a: {"kind": "artifact-update", "taskId": "t", "artifact": a},
    "list": lambda a: {"tasks": [{"id": "t", "artifacts": [a]}, {"id": "u", "artifacts": [a, a]}], "pageSize": 50},
}


@pytest.mark.parametrize("enveloped", [False, True])
@pytest.mark.parametrize("holder", HOLDERS)
def test_every_place_where_artifacts_are(holder: str, enveloped: bool) -> None:
    def make(content: Any) -> Any:
        held = HOLDERS[holder](content)
        return {"jsonrpc": "2.0", "id": "t", "result": held} if enveloped else held

    assert stripped(make(artifact())) == make(LEFT)


ASTRAY: dict[str, Callable[[Any], Any]] = {
    "message": lambda m: {"message": m},
    "0.3 message": lambda m: m,
    "status": lambda m: {"statusUpdate": {"taskId": "t", "status": {"state": "x", "message": m}}},
    "0.3 status": lambda m: {"kind": "status-update", "taskId": "t", "status": {"message": m}},
    "task": lambda m: {"id": "t", "status": {"message": m}, "history": [m, m], **m},
    "update": lambda m: {"artifactUpdate": {"taskId": "t", **m}},
}


@pytest.mark.parametrize("enveloped", [False, True])
@pytest.mark.parametrize("place", ASTRAY)
def test_calls_in_the_wrong_place_are_taken_out_too(place: str, enveloped: bool) -> None:
    """Put there by an agent that was asked: by the proxy, not by its client."""

    def make(content: Any) -> Any:
        held = ASTRAY[place](content)
        return {"jsonrpc": "2.0", "id": "t", "result": held} if enveloped else held

    assert stripped(make({"parts": [{"text": "x"}], "metadata": {METADATA_KEY: [1]}, "extensions": [URI]})) == make(
        {"parts": [{"text": "x"}]}
    )


def test_the_answers_to_a_batch() -> None:
    answers = [{"jsonrpc": "2.0", "id": n, "result": {"id": f"t{n}", "artifacts": [artifact()]}} for n in (1, 2)]
    asked, other = json.loads(strip(body(answers), keep_task="t1".__eq__))
    assert asked == answers[0]
    assert other["result"] == {"id": "t2", "artifacts": [LEFT]}


def test_fields_that_hold_something_else_too_stay() -> None:
    mixed = artifact(metadata={"x": 1, METADATA_KEY: [], "y": 2}, extensions=[OTHER, URI])
    assert stripped({"artifacts": [mixed]})["artifacts"][0] == {
        **LEFT,
        "metadata": {"x": 1, "y": 2},
        "extensions": [OTHER],
    }


def test_later_versions_are_the_extension_too() -> None:
    both = artifact(metadata={METADATA_KEY: [], f"{LATER}/tool_calls": []}, extensions=[URI, LATER])
    assert stripped({"artifacts": [both]}) == {"artifacts": [LEFT]}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_body_that_prints_defaults_keeps_the_emptied_list(indent: int | None) -> None:
    """Serializers that print "" for an unset name print [] for an unset list; an unset Struct they leave out."""
    for left, sent in (
        # defaults after what is set, as Python's protobuf prints them
        ({**LEFT, "name": "", "extensions": []}, {**artifact(), "name": ""}),
        ({**LEFT, "extensions": [], "referenceTaskIds": []}, {**artifact(), "referenceTaskIds": []}),
        # in the order of the fields
        ({"name": "", **LEFT, "extensions": []}, {"name": "", **artifact()}),
    ):
        if "referenceTaskIds" in sent:
            left, sent = ({**kept, "parts": [{"text": "x", "filename": ""}]} for kept in (left, sent))
        content, wanted = ({"artifacts": [item]} for item in (sent, left))
        assert guard(json.dumps(content, indent=indent).encode()).decode() == json.dumps(wanted, indent=indent)


@pytest.mark.parametrize(
    "holder",
    [
        {"status": {"message": {"metadata": {"note": URI}, "extensions": [OTHER], "parts": [{"text": URI}]}}},
        {"history": [{"parts": [{"data": {METADATA_KEY: [1], "metadata": {METADATA_KEY: [1]}, "parts": [URI]}}]}]},
        {"data": {"metadata": {METADATA_KEY: [1]}}, "details": [{"metadata": {METADATA_KEY: [1]}}]},
        {"artifacts": [{"artifactId": "a", "parts": [{"text": URI}, {"data": {METADATA_KEY: [1]}}]}]},
        {"artifacts": [{"artifactId": "a", "metadata": {"note": METADATA_KEY, "x": {METADATA_KEY: 1}}}]},
        {"artifacts": [{"artifactId": "a", "extensions": [OTHER, [URI], {URI: URI}]}]},
        {"artifacts": [{"artifactId": URI, "metadata": [METADATA_KEY], "extensions": URI}]},
        {"artifacts": {METADATA_KEY: 1}, "artifact": METADATA_KEY, "result": [METADATA_KEY]},
    ],
)
def test_what_only_mentions_it_is_none_of_ours(holder: dict[str, Any]) -> None:
    content = body({"id": "t", **holder})
    assert guard(content) is content


@pytest.mark.parametrize("spelling", ["escaped", "slashes"])
def test_it_is_found_however_it_is_spelt(spelling: str) -> None:
    def spelt(text: str) -> str:
        return text.replace("/", "\\/") if spelling == "slashes" else "".join(f"\\u{ord(c):04x}" for c in text)

    names = {name: spelt(name) for name in ("artifacts", "metadata", "extensions", METADATA_KEY, URI)}
    text = '{"artifacts":[{"metadata":{"KEY":[]},"extensions":["URI"]}]}'.replace("KEY", METADATA_KEY).replace(
        "URI", URI
    )
    for name, spelling_of_it in names.items():
        text = text.replace(f'"{name}"', f'"{spelling_of_it}"')
    assert json.loads(guard(text.encode())) == {"artifacts": [{}]}


def test_repeated_keys_are_all_seen() -> None:
    ours = f'"{METADATA_KEY}":[1]'
    text = (
        '{"artifacts":[{"metadata":{OURS,"x":1,OURS},"metadata":{OURS},"y":1}],"artifacts":[{"metadata":{OURS},"y":1}]}'
    )
    text = text.replace("OURS", ours)
    assert guard(text.encode()) == b'{"artifacts":[{"metadata":{"x":1},"y":1}],"artifacts":[{"y":1}]}'


@pytest.mark.parametrize("number", ["1e400", "-0.0", "1.50", "1E+2", "9" * 40, "9" * 5000, "NaN", "-Infinity"])
def test_numbers_stay_as_they_are_spelt(number: str) -> None:
    text = f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"{METADATA_KEY}":[{number}],"n":{number}}}}}]}}'
    assert (
        guard(text.encode()).decode() == f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"n":{number}}}}}]}}'
    )


def test_a_byte_order_mark_is_no_hiding_place() -> None:
    assert guard(b"\xef\xbb\xbf" + body({"artifacts": [artifact()]})) == b"\xef\xbb\xbf" + body({"artifacts": [LEFT]})


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_nor_are_other_encodings(codec: str, mark: str) -> None:
    sent, left = ({"artifacts": [one], "x": "\U0001f375"} for one in (artifact(), LEFT))
    assert guard((mark + body(sent).decode()).encode(codec)) == (mark + body(left).decode()).encode(codec)


def test_control_characters_are_no_hiding_place() -> None:
    """There are clients that read them, though they are no JSON."""
    content = body({"artifacts": [artifact(parts=[{"text": "?"}])]}).replace(b"?", b"a\n\t\x01b")
    assert guard(content) == b'{"artifacts":[{"artifactId":"a","parts":[{"text":"a\n\t\x01b"}]}]}'


def test_bytes_that_are_not_utf_8_are_no_hiding_place() -> None:
    content = body({"artifacts": [artifact(parts=[{"text": "?"}])]}).replace(b'"?"', b'"\xff\xc3"')
    assert guard(content) == b'{"artifacts":[{"artifactId":"a","parts":[{"text":"\xff\xc3"}]}]}'


# ── what exists for tool calls alone ────────────────────────────────────────────────────────────────────────

OWN = {
    "artifactId": "tool-calls-1",
    "name": "Tool calls",
    "parts": [{"text": ""}],
    "metadata": {METADATA_KEY: [{"name": "x"}]},
    "extensions": [URI],
}
ONLY_CALLS = [
    OWN,
    {"artifactId": "a", "metadata": {METADATA_KEY: [{"name": "x"}]}},
    {"artifactId": "a", "parts": [], "metadata": {METADATA_KEY: [1], f"{LATER}/tool_calls": []}},
    {"artifactId": "a", "parts": [{"kind": "text", "text": ""}, {"text": "", "mediaType": "text/plain"}], **OWN},
    {"artifactId": "a", "description": "what was called", "parts": [{"text": "", "metadata": {METADATA_KEY: [1]}}]},
]
NOT_ONLY_CALLS = [
    {**OWN, "parts": [{"text": "x"}]},
    {**OWN, "parts": [{"text": ""}, {"data": {"x": 1}}]},
    {**OWN, "parts": [{"file": {"uri": "file:///x"}}]},
    {**OWN, "parts": [{"text": "", "metadata": {"x": 1}}]},
    {**OWN, "metadata": {METADATA_KEY: []}},
    {**OWN, "metadata": {METADATA_KEY: "calls"}},
    {**OWN, "metadata": {METADATA_KEY: [1], "x": 1}},
    {**OWN, "extensions": [URI, OTHER]},
    {**OWN, "x": 1},
]


@pytest.mark.parametrize("own", ONLY_CALLS)
def test_an_artifact_that_exists_for_its_calls_goes(own: dict[str, Any]) -> None:
    task = {"id": "t", "status": {"state": "x"}}
    for artifacts, left in (([own], []), ([artifact(), own], [LEFT]), ([own, artifact(), own, own], [LEFT])):
        assert stripped({**task, "artifacts": artifacts}) == task | ({"artifacts": left} if left else {})
    for holder in ("artifactUpdate", "artifact_update"):
        assert strip_event(body({"result": {holder: {"taskId": "t", "artifact": own}}}), nobody, set()) is None
    legacy = {"kind": "artifact-update", "taskId": "t", "artifact": own, "lastChunk": True}
    assert strip_event(body({"jsonrpc": "2.0", "id": 1, "result": legacy}), nobody, set()) is None


@pytest.mark.parametrize("kept", NOT_ONLY_CALLS)
def test_an_artifact_that_holds_something_else_stays(kept: dict[str, Any]) -> None:
    (left,) = stripped({"artifacts": [kept]})["artifacts"]
    assert left["artifactId"] == "tool-calls-1"
    event = strip_event(body({"artifactUpdate": {"taskId": "t", "artifact": kept}}), nobody, set())
    assert event is not None
    assert json.loads(event)["artifactUpdate"]["artifact"] == left


def test_an_emptied_list_of_artifacts_in_a_body_that_prints_defaults() -> None:
    """As Python's protobuf prints it: defaults after what is set."""
    own = {"artifactId": "a", "parts": [{"text": "", "filename": ""}], **OWN, "description": ""}
    task = {"id": "t", "artifacts": [own], "status": {}}
    assert guard(body(task | {"history": [1]})) == body({"id": "t", "status": {}, "history": [1], "artifacts": []})
    assert guard(body(task | {"history": []})) == body({"id": "t", "status": {}, "artifacts": [], "history": []})
    assert guard(body({"artifacts": [own], "metadata": OWN["metadata"]})) == body({"artifacts": []})


def test_a_message_and_a_part_that_exist_for_their_calls_go() -> None:
    own = {"role": "agent", "parts": [{"text": ""}], "metadata": {METADATA_KEY: [1]}}
    said = {"role": "user", "parts": [{"text": "hi"}]}
    assert stripped({"id": "t", "history": [said, own]}) == {"id": "t", "history": [said]}
    part = {"text": "", "metadata": {METADATA_KEY: [1]}}
    assert stripped({"message": {"parts": [part, {"text": "hi"}]}}) == {"message": {"parts": [{"text": "hi"}]}}
    assert stripped({"message": {"parts": [part]}}) == {"message": {"parts": [{"text": ""}]}}


def test_it_stays_where_its_task_was_asked_for() -> None:
    content = body({"tasks": [{"id": "asked", "artifacts": [OWN]}]})
    assert strip(content, keep_task="asked".__eq__) is content
    event = body({"artifactUpdate": {"taskId": "asked", "artifact": OWN}})
    assert strip_event(event, "asked".__eq__, set()) is event


def chunk(text: str, *, calls: bool = False, **flags: bool) -> dict[str, Any]:
    ours = {"metadata": {METADATA_KEY: [1]}, "extensions": [URI]} if calls else {}
    return {
        "artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": text}], **ours}, **flags}
    }


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        # what continues an artifact that was not shown begins it
        ([chunk("", calls=True), chunk("x", append=True)], [chunk("x")]),
        (
            [chunk("", calls=True), chunk("x", calls=True, append=True), chunk("y", append=True, lastChunk=True)],
            [chunk("x"), chunk("y", append=True, lastChunk=True)],
        ),
        ([chunk("", calls=True), chunk("", calls=True, append=True), chunk("", append=True, lastChunk=True)], []),
        ([chunk("", calls=True), chunk("x"), chunk("y", append=True)], [chunk("x"), chunk("y", append=True)]),
        # the client has the artifact, and is told that it is complete
        ([chunk("x"), chunk("", calls=True, append=True)], [chunk("x")]),
        (
            [chunk("x", calls=True), chunk("", calls=True, append=True, lastChunk=True)],
            [chunk("x"), chunk("", append=True, lastChunk=True)],
        ),
        ([chunk("x"), chunk("", append=True)], [chunk("x"), chunk("", append=True)]),
        # first seen in a snapshot
        (
            [{"task": {"id": "t", "artifacts": [OWN | {"artifactId": "a"}]}}, chunk("x", append=True)],
            [{"task": {"id": "t"}}, chunk("x")],
        ),
    ],
)
def test_the_chunks_that_are_left_make_whole_artifacts(sent: list[Any], left: list[Any]) -> None:
    withheld: set[str] = set()
    got = [event for item in sent if (event := strip_event(body(item), nobody, withheld)) is not None]
    assert [json.loads(event) for event in got] == left


def test_append_goes_together_with_its_neighbour() -> None:
    update = {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}, "append": True}
    ours = {"metadata": {METADATA_KEY: [1]}}
    event = strip_event(body({"artifactUpdate": update | ours}), nobody, {"a"})
    assert event == body({"artifactUpdate": {key: value for key, value in update.items() if key != "append"}})


# ── too much to be read ─────────────────────────────────────────────────────────────────────────────────────


def spellings_of(name: str) -> list[bytes]:
    lower, upper = ("".join(f"\\u{ord(c):04{case}}" for c in name) for case in "xX")
    return [text.encode(codec) for text in (name, lower, upper) for codec in ("utf-8", "utf-16-be", "utf-32")]


@given(st.integers(1, 700), st.sampled_from(spellings_of("tool-call-capture")), st.integers(0, 2_000))
def test_it_is_found_wherever_the_pieces_are_cut(size: int, name: bytes, before: int) -> None:
    scanner = UnreadBodyFilter()
    data = b"x" * before + name + b"x" * 500
    passed = b""
    found = False
    for at in range(0, len(data), size):
        try:
            passed += scanner.feed(data[at : at + size])
        except UnreadableError:
            found = True
            break
    assert found
    assert data.startswith(passed)
    assert passed.strip(b"x\xff\xfe\0") == b""  # a byte-order mark and zeros may pass


@given(st.lists(st.binary(max_size=700), max_size=5))
def test_what_does_not_name_it_passes_whole(pieces: list[bytes]) -> None:
    scanner = UnreadBodyFilter()
    assert b"".join(map(scanner.feed, pieces)) + scanner.rest() == b"".join(pieces)


@pytest.mark.parametrize(("end", "held"), [("one", 0), ("a to", 2), ("\\", 1), ("t\\u006F\\u0", 10), ("\\o", 0)])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
def test_only_what_may_begin_its_name_is_held_back(end: str, held: int, codec: str) -> None:
    scanner = UnreadBodyFilter()
    data = f"something {end}".encode(codec)
    passed = scanner.feed(data)
    assert passed + scanner.rest() == data
    assert len(data) - len(passed) == held * len("x".encode(codec))


# ── tasks that were asked for ───────────────────────────────────────────────────────────────────────────────


def test_a_task_that_was_asked_for_keeps_its_calls() -> None:
    content = {"tasks": [{"id": "asked", "artifacts": [artifact()]}, {"artifacts": [artifact()], "id": "other"}]}
    result = json.loads(strip(body(content), lambda task_id: task_id == "asked"))
    assert result["tasks"][0] == content["tasks"][0]
    assert result["tasks"][1] == {"artifacts": [LEFT], "id": "other"}


def test_the_id_may_come_after_the_artifacts() -> None:
    content = body({"artifacts": [artifact()], "id": "asked"})
    assert strip(content, lambda task_id: task_id == "asked") is content


def test_the_envelopes_id_is_no_task() -> None:
    content = {"jsonrpc": "2.0", "id": "asked", "result": {"id": "other", "artifacts": [artifact()]}}
    result = json.loads(strip(body(content), lambda task_id: task_id == "asked"))
    assert result["result"]["artifacts"] == [LEFT]


# ── any body, with and without ──────────────────────────────────────────────────────────────────────────────

# A body is generated once, its texts and numbers already spelt; rendered with and without what is marked as ours.


@dataclass(frozen=True)
class Member:
    value: Any
    """Spelt JSON text, or Many."""
    key: str | None = None
    """Spelt; None in an array."""
    ours: bool = False
    moves: bool = False
    """Whether it is an emptied list in a body that prints defaults: it comes last if the defaults do."""


@dataclass(frozen=True)
class Many:
    brackets: str
    members: list[Member] = field(default_factory=list)
    task_id: str | None = None
    """Set on what keeps or loses its calls as a whole."""


@dataclass(frozen=True)
class Style:
    """How a serializer lays out: separators, and an indent or none."""

    item: str
    key: str
    indent: str | None = None

    def render(self, node: Any, keep: Callable[[str], bool], *, kept: bool = False, level: int = 0) -> str:
        if isinstance(node, str):
            return node
        kept = keep(node.task_id) if node.task_id is not None else kept
        members = [member for member in node.members if kept or not member.ours]
        if not members:
            return str(node.brackets)
        if not kept:
            members = self._defaults_last(members)
        inner = [
            (f"{member.key}{self.key}" if member.key is not None else "")
            + self.render(member.value, keep, kept=kept, level=level + 1)
            for member in members
        ]
        if self.indent is None:
            return node.brackets[0] + self.item.join(inner) + node.brackets[1]
        line = "\n" + self.indent * (level + 1)
        return (
            node.brackets[0] + line + f"{self.item}{line}".join(inner) + "\n" + self.indent * level + node.brackets[1]
        )

    @staticmethod
    def _defaults_last(members: list[Member]) -> list[Member]:
        for place, item in enumerate(members):
            if item.moves and any(default.value == '""' for default in members[place:]):
                return [*members[:place], *members[place + 1 :], item]
        return members


STYLES = [
    Style(",", ":"),
    Style(", ", ": "),
    Style(",", ": ", "  "),
    Style(",", " : ", "\t"),
    Style(" ,\r\n ", "\n:\t"),
]

spellings = st.sampled_from(["raw", "ascii", "slash", "escaped"])


@st.composite
def spelt(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    text, spelling = draw(texts), draw(spellings)
    if spelling == "escaped" and text.isascii():
        return '"' + "".join(f"\\u{ord(c):04X}" for c in text) + '"'
    if spelling == "slash":
        return json.dumps(text).replace("/", "\\/")
    # a lone surrogate has no raw spelling
    return json.dumps(text, ensure_ascii=spelling == "ascii" or not text.isprintable())


texts = st.text(max_size=4) | st.sampled_from(["", URI, METADATA_KEY, f'"{URI}"', "\\", '{"artifacts":[', "☃"])
numbers = st.sampled_from(["0", "-0.0", "1e400", "1.50", "1E+2", "12345678901234567890123", "null", "true"])
leaves = spelt(texts) | numbers


def objects(*members: st.SearchStrategy[list[Member]], task_id: str | None = None) -> st.SearchStrategy[Many]:
    """Objects whose members come in any order."""
    return (
        st.tuples(*members)
        .map(lambda parts: [member for part in parts for member in part])
        .flatmap(st.permutations)
        .map(lambda found: Many("{}", list(found), task_id))
    )


def member(key: str, value: st.SearchStrategy[Any], *, ours: bool = False) -> st.SearchStrategy[list[Member]]:
    return st.builds(lambda name, content: [Member(content, name, ours)], spelt(st.just(key)), value)


def maybe(one: st.SearchStrategy[list[Member]]) -> st.SearchStrategy[list[Member]]:
    return one | st.just([])


def arrays(value: st.SearchStrategy[Any], max_size: int = 2) -> st.SearchStrategy[Many]:
    return st.lists(value.map(Member), max_size=max_size).map(partial(Many, "[]"))


values = st.recursive(
    leaves,
    lambda inner: arrays(inner) | st.lists(st.builds(Member, inner, spelt(texts)), max_size=2).map(partial(Many, "{}")),
    max_leaves=5,
)
ours_in_metadata = st.builds(
    lambda key, value: Member(value, key, ours=True),
    spelt(st.sampled_from([METADATA_KEY, f"{LATER}/tool_calls"])),
    values,
)
theirs_in_metadata = st.builds(Member, values, spelt(st.sampled_from(["x", "ours? no", OTHER])))
ours_in_extensions = spelt(st.sampled_from([URI, LATER])).map(lambda uri: Member(uri, ours=True))
theirs_in_extensions = spelt(st.sampled_from([OTHER, "x"])).map(Member)


def field_of(
    key: str, brackets: str, ours: st.SearchStrategy[Member], theirs: st.SearchStrategy[Member], keeps_empty: bool
) -> st.SearchStrategy[list[Member]]:
    """`metadata` or `extensions`: a field that held nothing but ours is ours itself."""

    def build(name: str, members: list[Member]) -> list[Member]:
        everything = bool(members) and all(item.ours for item in members) and not keeps_empty
        moves = keeps_empty and bool(members) and all(item.ours for item in members)
        return [Member(Many(brackets, list(members)), name, everything, moves)]

    return st.builds(build, spelt(st.just(key)), st.lists(ours | theirs, max_size=4))


def our_fields() -> list[st.SearchStrategy[list[Member]]]:
    return [
        maybe(field_of("metadata", "{}", ours_in_metadata, theirs_in_metadata, keeps_empty=False)),
        maybe(field_of("extensions", "[]", ours_in_extensions, theirs_in_extensions, keeps_empty=False)),
    ]


def artifacts(prints_defaults: bool) -> st.SearchStrategy[Many]:
    metadata = field_of("metadata", "{}", ours_in_metadata, theirs_in_metadata, keeps_empty=False)
    extensions = field_of("extensions", "[]", ours_in_extensions, theirs_in_extensions, keeps_empty=prints_defaults)
    text = member("text", spelt(texts.filter(bool)))
    part = objects(text, maybe(member("data", values)), *our_fields())
    defaults = member("name", st.just('""')) if prints_defaults else st.just([])
    twice = st.tuples(metadata, maybe(metadata)).map(lambda pair: pair[0] + pair[1])  # keys may repeat
    return objects(
        member("artifactId", spelt(st.just("a"))),
        defaults,
        member("parts", st.lists(part.map(Member), min_size=1, max_size=2).map(partial(Many, "[]"))),
        maybe(twice),
        maybe(extensions),
    )


empty_parts = arrays(objects(maybe(member("text", st.just('""'))), maybe(member("kind", st.just('"text"')))))
calls = st.lists(values.map(Member), min_size=1, max_size=2).map(partial(Many, "[]"))
"""A list of tool calls, whatever they are."""

ours_alone = objects(
    maybe(member("artifactId", spelt(texts))),
    maybe(member("name", spelt(texts.filter(bool)))),
    maybe(member("parts", empty_parts)),
    member("metadata", objects(member(METADATA_KEY, calls, ours=True)), ours=True),
    maybe(field_of("extensions", "[]", ours_in_extensions, ours_in_extensions, keeps_empty=False)),
)
"""What exists for its tool calls alone."""


def entries(key: str, theirs: st.SearchStrategy[Many]) -> st.SearchStrategy[list[Member]]:
    """`artifacts` or `history`: a list of nothing but ours is ours itself."""

    def build(name: str, members: list[Member]) -> list[Member]:
        return [Member(Many("[]", members), name, bool(members) and all(item.ours for item in members))]

    one = ours_alone.map(partial(Member, ours=True)) | theirs.map(Member)
    return st.builds(build, spelt(st.just(key)), st.lists(one, max_size=3))


def messages() -> st.SearchStrategy[Many]:
    part = objects(member("text", spelt(texts.filter(bool))), *our_fields())
    parts = st.lists(part.map(Member), min_size=1, max_size=2).map(partial(Many, "[]"))
    return objects(member("role", st.just('"agent"')), member("parts", parts), *our_fields())


def errors() -> st.SearchStrategy[list[Member]]:
    """The error of JSON-RPC or of HTTP+JSON."""
    details = arrays(objects(member("reason", leaves), *our_fields()))
    return member("error", objects(maybe(member("data", details)), maybe(member("details", details))))


@st.composite
def bodies(draw: st.DrawFn) -> Many:
    prints_defaults = draw(st.booleans())
    one = artifacts(prints_defaults)

    def task(task_id: str) -> st.SearchStrategy[Many]:
        return objects(
            member("id", spelt(st.just(task_id))),
            maybe(member("status", objects(maybe(member("message", messages()))))),
            maybe(entries("artifacts", one)),
            maybe(entries("history", messages())),
            *our_fields(),
            task_id=task_id,
        )

    any_task = st.sampled_from(["t1", "t2", ""]).flatmap(task)
    update = objects(
        member("taskId", st.just('"t1"')),
        member("artifact", one),
        maybe(member("append", st.just("true"))),
        task_id="t1",
    )
    result = draw(
        any_task
        | objects(member("task", any_task))
        | objects(member("artifactUpdate", update))
        | update
        | objects(member("tasks", arrays(any_task, 3)), maybe(member("nextPageToken", leaves)))
        | objects(member("message", messages()))
    )
    return draw(
        objects(member("jsonrpc", st.just('"2.0"')), member("id", leaves), member("result", st.just(result)))
        | objects(errors(), member("id", leaves))
        | st.just(result)
    )


LEADS_ON = {"result", "tasks", "task", "artifactUpdate", "artifact", "artifacts", "parts", "error"}
LEADS_ON |= {"statusUpdate", "status", "message", "history", "details"}
keepers = st.sampled_from([nobody, "t1".__eq__, "t2".__eq__])


@given(bodies(), st.sampled_from(STYLES), keepers)
def test_what_is_left_is_what_the_agent_would_have_sent(content: Many, style: Style, keep: Any) -> None:
    sent = style.render(content, lambda _: True).encode()
    wanted = style.render(content, lambda task_id: bool(task_id) and keep(task_id) is True).encode()
    got = strip(sent, keep_task=lambda task_id: keep(task_id) is True)
    assert got == wanted
    assert guard(sent) == style.render(content, lambda _: False).encode()
    if sent == wanted:
        assert got is sent


@settings(max_examples=20)
@given(bodies(), st.sampled_from(STYLES))
def test_stripping_twice_is_stripping_once(content: Many, style: Style) -> None:
    once = guard(style.render(content, lambda _: True).encode())
    assert guard(once) == once


def holds_ours(value: Any) -> bool:
    """Whether the extension is anywhere a client would look for it."""
    if isinstance(value, list):
        return any(holds_ours(item) for item in value)
    if not isinstance(value, dict):
        return False
    metadata, extensions = value.get("metadata"), value.get("extensions")
    named = [*(metadata if isinstance(metadata, dict) else ()), *(extensions if isinstance(extensions, list) else ())]
    if any(isinstance(name, str) and name.startswith(URI[:-3]) for name in named):
        return True
    return any(holds_ours(item) for key, item in value.items() if key in LEADS_ON)


@settings(max_examples=20)
@given(bodies(), st.sampled_from(STYLES))
def test_nothing_of_it_is_left(content: Many, style: Style) -> None:
    assert not holds_ours(json.loads(guard(style.render(content, lambda _: True).encode())))


# ── what is no JSON ─────────────────────────────────────────────────────────────────────────────────────────


def unread(content: bytes) -> bytes:
    """What is left of content that is no JSON: everything, where it does not name the extension."""
    try:
        return guard(content)
    except UnreadableError:
        assert names_extension(content)
        return b""


@settings(max_examples=20)
@given(bodies(), st.sampled_from(STYLES), st.integers(0, 10_000))
def test_of_a_truncated_body_nothing_passes_that_names_it(content: Many, style: Style, place: int) -> None:
    whole = style.render(content, lambda _: True).encode()
    part = whole[: place % len(whole)]
    assert unread(part) in (part, b"")
    assert unread(part) is part or names_extension(part)


@settings(max_examples=20)
@given(bodies(), st.integers(0, 10_000), st.binary(min_size=1, max_size=2))
def test_a_damaged_body_harms_nobody(content: Many, place: int, damage: bytes) -> None:
    whole = STYLES[0].render(content, lambda _: True).encode()
    at = place % len(whole)
    got = unread(whole[:at] + damage + whole[at + 1 :])
    assert len(got) <= len(whole) + 1


@given(st.binary(max_size=40))
@example(b"")
@example(b"\\u00")
@example(b"\0\0")
def test_junk_comes_back_as_it_is(junk: bytes) -> None:
    assert guard(junk) is junk


@pytest.mark.parametrize(
    "content",
    [
        f'{{"artifacts":[{{"extensions":["{URI}"',
        f"{{'artifacts':[{{'extensions':['{URI}']}}]}}",
        f"{URI} and text",
        body({"artifacts": [{"extensions": [URI]}]}).decode() + f" and {URI}",
        '{"extensions":["' + "".join(f"\\u{ord(c):04X}" for c in URI),
    ],
)
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_what_cannot_be_read_and_names_it_is_refused(content: str, codec: str) -> None:
    with pytest.raises(UnreadableError):
        guard(content.encode(codec))


def test_what_has_too_many_values_is_refused_where_it_names_it() -> None:
    many = ", []" * json_limits.MAX_VALUES
    assert guard(f'{{"a\\u0020": [[]{many}]}}'.encode()) == f'{{"a\\u0020": [[]{many}]}}'.encode()
    with pytest.raises(UnreadableError):
        guard(f'{{"artifacts": [{{"extensions": ["{URI}"]}}{many}]}}'.encode())


@given(almost_events | json_values)
def test_json_shaped_junk_loses_at_most_the_extension(junk: Any) -> None:
    sent = json.dumps(junk).encode()
    got = guard(sent)
    assert not holds_ours(json.loads(got))
    read = partial(json.loads, parse_constant=str)  # NaN does not equal itself
    assert (got is sent) == (read(got) == read(sent))


def test_deep_nesting_harms_nobody() -> None:
    deep = b'{"artifacts":[{"x":1,"metadata":{"%b":%b}}]}' % (METADATA_KEY.encode(), b"[" * 50_000 + b"]" * 50_000)
    assert guard(deep) == b'{"artifacts":[{"x":1}]}'
    with pytest.raises(UnreadableError):
        guard(deep[:-40_000])


def test_calls_beside_what_nests_too_deeply_for_python() -> None:
    nested = b'{"a":' * 5_000 + b'"]} \\" {["' + b"}" * 5_000
    answer = b'{"status":%b,"artifacts":[{"extensions":["%b"],"parts":%b}]}' % (nested, URI.encode(), nested)
    assert guard(answer) == b'{"status":%b,"artifacts":[{"parts":%b}]}' % (nested, nested)


def test_holders_in_holders_without_end() -> None:
    deep = b'{"result":' * 5_000 + b'{"artifacts":[{"extensions":["%b"]}]}' % URI.encode() + b"}" * 5_000
    assert guard(deep) == deep


def test_another_extension_with_our_beginning_stays() -> None:
    answer = b'{"artifacts":[{"extensions":["%b-x"]}]}' % BASE_URI.encode()
    assert guard(answer) == answer


def test_the_cheap_test_never_misses() -> None:
    assert may_hold_extension(body(artifact()))
    assert may_hold_extension(URI.replace("t", "\\u0074").encode())
    assert not may_hold_extension(b'{"artifacts":[]}')


# ── the usual form ──────────────────────────────────────────────────────────────────────────────────────────

uris = st.lists(st.sampled_from([URI, LATER, OTHER, "urn:another"]), unique=True)


@given(uris, uris, st.booleans(), st.sampled_from([None, 0, 2, "\t"]), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_the_cutter_leaves_the_same_bytes_as_the_scanner_wherever_the_extension_stands(
    in_metadata: list[str], in_extensions: list[str], first: bool, indent: int | str | None, separators: tuple[str, str]
) -> None:
    """First, last, in the middle or alone, in compact JSON and in such with a line for each element."""

    def rendered(kept: Callable[[str], bool]) -> bytes:
        metadata = {f"{uri}/tool_calls": [{"name": "x"}] for uri in filter(kept, in_metadata)}
        ours: dict[str, Any] = {"metadata": metadata, "extensions": list(filter(kept, in_extensions))}
        for name, everything in (("metadata", in_metadata), ("extensions", in_extensions)):
            if everything and not ours[name]:
                del ours[name]
        content = {"task": {"id": "t", "artifacts": [{**ours, **LEFT} if first else {**LEFT, **ours}]}}
        return json.dumps(content, indent=indent, separators=separators).encode()

    assert guard(rendered(lambda _: True)) == rendered(lambda uri: not uri.startswith(BASE_URI))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "content",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "t", "artifacts": [artifact(), LEFT, artifact()]}}},
        {"jsonrpc": "2.0", "id": 1, "result": {"kind": "task", "id": "t", "artifacts": [artifact(name="answer")]}},
        {"artifactUpdate": {"taskId": "t", "artifact": artifact(extensions=[OTHER, URI]), "append": True}},
        {"task": {"artifacts": [artifact(metadata={"kept": 1, METADATA_KEY: [{"name": "x"}], "also": 2})]}},
    ],
)
def test_what_has_the_usual_form_is_not_scanned(content: Any, separators: tuple[str, str]) -> None:
    sent = json.dumps(content, separators=separators).encode()
    cut = cut_usual(sent, content)
    assert cut is not None
    assert cut == strip(sent, nobody)
    assert strip_event(sent, None, set(), content) == cut


@pytest.mark.parametrize(
    "content",
    [
        {"task": {"artifacts": [artifact(parts=[])]}},
        {"task": {"artifacts": [artifact(name="")]}},
        {"task": {"artifacts": [artifact()], "metadata": {METADATA_KEY: []}}},
        {"task": {"artifacts": [artifact(parts=[{"text": f"see {URI}"}])]}},
        {"message": {"parts": [{"text": "x"}], "extensions": [URI]}},
        {"task": {"artifacts": [artifact(metadata={METADATA_KEY: {}})]}},
        [artifact()],
    ],
)
def test_any_other_form_is_scanned(content: Any) -> None:
    assert cut_usual(body(content), content) is None
