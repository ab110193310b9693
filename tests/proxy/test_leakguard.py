"""Taking the extension out of bodies: all of it, nothing else, and not a byte re-encoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from a2a_eval_proxy.capture.sse import SseSplitter
from a2a_eval_proxy.leakguard import may_hold_extension, strip, strip_header, strip_headers
from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.spec import BASE_URI
from e2e.recordings import Recording, anonymous, names
from hypothesis import example, given, settings
from hypothesis import strategies as st
from junk import almost_events, json_values

OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")
PAIRS = [name.removesuffix("-ext") for name in names("*-ext")]


def nobody(_: str) -> bool:
    return False


guard = partial(strip, keep_task=nobody)


def body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def stripped(value: Any) -> Any:
    return json.loads(guard(body(value)))


def artifact(**more: Any) -> dict[str, Any]:
    return {"artifactId": "a", "metadata": {METADATA_KEY: [{"name": "x"}]}, "extensions": [URI], **more}


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


@pytest.mark.parametrize("name", [name for name in names() if URI.encode() not in Recording.load(name).response_body])
def test_a_body_without_the_extension_is_the_same_object(name: str) -> None:
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

    assert stripped(make(artifact())) == make({"artifactId": "a"})


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

    assert stripped(make({"role": "agent", "metadata": {METADATA_KEY: [1]}, "extensions": [URI]})) == make(
        {"role": "agent"}
    )


def test_the_answers_to_a_batch() -> None:
    answers = [{"jsonrpc": "2.0", "id": n, "result": {"id": f"t{n}", "artifacts": [artifact()]}} for n in (1, 2)]
    asked, other = json.loads(strip(body(answers), keep_task="t1".__eq__))
    assert asked == answers[0]
    assert other["result"] == {"id": "t2", "artifacts": [{"artifactId": "a"}]}


def test_fields_that_hold_something_else_too_stay() -> None:
    mixed = artifact(metadata={"x": 1, METADATA_KEY: [], "y": 2}, extensions=[OTHER, URI])
    assert stripped({"artifacts": [mixed]})["artifacts"][0] == {
        "artifactId": "a",
        "metadata": {"x": 1, "y": 2},
        "extensions": [OTHER],
    }


def test_later_versions_are_the_extension_too() -> None:
    both = artifact(metadata={METADATA_KEY: [], f"{LATER}/tool_calls": []}, extensions=[URI, LATER])
    assert stripped({"artifacts": [both]}) == {"artifacts": [{"artifactId": "a"}]}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_body_that_prints_defaults_keeps_the_emptied_list(indent: int | None) -> None:
    """Serializers that print "" for an unset name print [] for an unset list; an unset Struct they leave out."""
    sent = {"artifacts": [{**artifact(), "name": "", "description": ""}]}
    left = {"artifacts": [{"artifactId": "a", "extensions": [], "name": "", "description": ""}]}
    assert guard(json.dumps(sent, indent=indent).encode()) == json.dumps(left, indent=indent).encode()


@pytest.mark.parametrize(
    "holder",
    [
        {"status": {"message": {"metadata": {"note": URI}, "extensions": [OTHER], "parts": [{"text": URI}]}}},
        {"history": [{"parts": [{"data": {METADATA_KEY: [1]}, "metadata": {METADATA_KEY: [1]}}]}]},
        {"artifacts": [{"artifactId": "a", "parts": [{"text": URI}, {"data": {METADATA_KEY: [1]}}]}]},
        {"artifacts": [{"artifactId": "a", "parts": [{"metadata": {METADATA_KEY: [1]}, "extensions": [URI]}]}]},
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
    text = '{"artifacts":[{"metadata":{OURS,"x":1,OURS},"metadata":{OURS}}],"artifacts":[{"metadata":{OURS}}]}'
    text = text.replace("OURS", ours)
    assert guard(text.encode()) == b'{"artifacts":[{"metadata":{"x":1}}],"artifacts":[{}]}'


@pytest.mark.parametrize("number", ["1e400", "-0.0", "1.50", "1E+2", "9" * 40, "9" * 5000, "NaN", "-Infinity"])
def test_numbers_stay_as_they_are_spelt(number: str) -> None:
    text = f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"{METADATA_KEY}":[{number}],"n":{number}}}}}]}}'
    assert (
        guard(text.encode()).decode() == f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"n":{number}}}}}]}}'
    )


def test_a_byte_order_mark_is_no_hiding_place() -> None:
    assert (
        guard(b"\xef\xbb\xbf" + body({"artifacts": [artifact()]})) == b'\xef\xbb\xbf{"artifacts":[{"artifactId":"a"}]}'
    )


def test_bytes_that_are_not_utf_8_are_no_hiding_place() -> None:
    content = body({"artifacts": [artifact(parts=[{"text": "?"}])]}).replace(b'"?"', b'"\xff\xc3"')
    assert guard(content) == b'{"artifacts":[{"artifactId":"a","parts":[{"text":"\xff\xc3"}]}]}'


# ── tasks that were asked for ───────────────────────────────────────────────────────────────────────────────


def test_a_task_that_was_asked_for_keeps_its_calls() -> None:
    content = {"tasks": [{"id": "asked", "artifacts": [artifact()]}, {"artifacts": [artifact()], "id": "other"}]}
    result = json.loads(strip(body(content), lambda task_id: task_id == "asked"))
    assert result["tasks"][0] == content["tasks"][0]
    assert result["tasks"][1] == {"artifacts": [{"artifactId": "a"}], "id": "other"}


def test_the_id_may_come_after_the_artifacts() -> None:
    content = body({"artifacts": [artifact()], "id": "asked"})
    assert strip(content, lambda task_id: task_id == "asked") is content


def test_the_envelopes_id_is_no_task() -> None:
    content = {"jsonrpc": "2.0", "id": "asked", "result": {"id": "other", "artifacts": [artifact()]}}
    result = json.loads(strip(body(content), lambda task_id: task_id == "asked"))
    assert result["result"]["artifacts"] == [{"artifactId": "a"}]


# ── headers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "left"),
    [(URI, ""), (f"{OTHER}, {URI}", OTHER), (f"{LATER},{URI}", ""), (f"{OTHER} ,b", f"{OTHER} ,b"), ("", "")],
)
def test_an_extensions_header(value: str, left: str) -> None:
    assert strip_header(value) == left


def test_response_headers() -> None:
    headers = [
        (b"Content-Type", b"application/json"),
        (b"X-A2A-Extensions", URI.encode()),
        (b"a2a-extensions", f"{OTHER},{URI}".encode()),
        (b"X-Note", URI.encode()),
    ]
    assert strip_headers(headers) == [headers[0], (b"a2a-extensions", OTHER.encode()), headers[3]]


# ── any body, with and without ──────────────────────────────────────────────────────────────────────────────

# A body is generated once, its texts and numbers already spelt; rendered with and without what is marked as ours.


@dataclass(frozen=True)
class Member:
    value: Any
    """Spelt JSON text, or Many."""
    key: str | None = None
    """Spelt; None in an array."""
    ours: bool = False


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
        return [Member(Many(brackets, list(members)), name, everything)]

    return st.builds(build, spelt(st.just(key)), st.lists(ours | theirs, max_size=4))


def artifacts(prints_defaults: bool) -> st.SearchStrategy[Many]:
    metadata = field_of("metadata", "{}", ours_in_metadata, theirs_in_metadata, keeps_empty=False)
    extensions = field_of("extensions", "[]", ours_in_extensions, theirs_in_extensions, keeps_empty=prints_defaults)
    parts = arrays(objects(maybe(member("text", spelt(texts.filter(bool)))), maybe(member("data", values))))
    defaults = member("name", st.just('""')) if prints_defaults else st.just([])
    twice = st.tuples(metadata, maybe(metadata)).map(lambda pair: pair[0] + pair[1])  # keys may repeat
    return objects(
        member("artifactId", spelt(st.just("a"))),
        defaults,
        maybe(member("parts", parts)),
        maybe(twice),
        maybe(extensions),
    )


def our_fields() -> list[st.SearchStrategy[list[Member]]]:
    return [
        maybe(field_of("metadata", "{}", ours_in_metadata, theirs_in_metadata, keeps_empty=False)),
        maybe(field_of("extensions", "[]", ours_in_extensions, theirs_in_extensions, keeps_empty=False)),
    ]


def messages() -> st.SearchStrategy[Many]:
    return objects(member("role", st.just('"agent"')), *our_fields())


@st.composite
def bodies(draw: st.DrawFn) -> Many:
    prints_defaults = draw(st.booleans())
    one = artifacts(prints_defaults)

    def task(task_id: str) -> st.SearchStrategy[Many]:
        return objects(
            member("id", spelt(st.just(task_id))),
            maybe(member("status", objects(maybe(member("message", messages()))))),
            maybe(member("artifacts", arrays(one))),
            maybe(member("history", arrays(messages()))),
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
        | st.just(result)
    )


LEADS_ON = {"result", "tasks", "task", "artifactUpdate", "artifact", "artifacts"}
LEADS_ON |= {"statusUpdate", "status", "message", "history"}
keepers = st.sampled_from([nobody, "t1".__eq__, "t2".__eq__])


@given(bodies(), st.sampled_from(STYLES), keepers)
def test_what_is_left_is_what_the_agent_would_have_sent(content: Many, style: Style, keep: Any) -> None:
    sent = style.render(content, lambda _: True).encode()
    wanted = style.render(content, lambda task_id: bool(task_id) and keep(task_id) is True).encode()
    got = strip(sent, keep_task=lambda task_id: keep(task_id) is True)
    assert got == wanted
    if sent == wanted:
        assert got is sent


@settings(max_examples=40)
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


@settings(max_examples=40)
@given(bodies(), st.sampled_from(STYLES))
def test_nothing_of_it_is_left(content: Many, style: Style) -> None:
    assert not holds_ours(json.loads(guard(style.render(content, lambda _: True).encode())))


# ── what is no JSON ─────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40)
@given(bodies(), st.sampled_from(STYLES), st.integers(0, 10_000))
def test_a_truncated_body_comes_back_as_it_is(content: Many, style: Style, place: int) -> None:
    whole = style.render(content, lambda _: True).encode()
    part = whole[: place % len(whole)]
    assert guard(part) is part


@settings(max_examples=40)
@given(bodies(), st.integers(0, 10_000), st.binary(min_size=1, max_size=2))
def test_a_damaged_body_harms_nobody(content: Many, place: int, damage: bytes) -> None:
    whole = STYLES[0].render(content, lambda _: True).encode()
    at = place % len(whole)
    got = guard(whole[:at] + damage + whole[at + 1 :])
    assert len(got) <= len(whole) + 1


@given(st.binary(max_size=40).map(lambda junk: URI.encode() + junk) | st.binary(max_size=40))
@example(b"")
@example(b"\\u00")
def test_junk_comes_back_as_it_is(junk: bytes) -> None:
    assert guard(junk) is junk


@given(almost_events | json_values)
def test_json_shaped_junk_loses_at_most_the_extension(junk: Any) -> None:
    sent = json.dumps(junk).encode()
    got = guard(sent)
    assert not holds_ours(json.loads(got))
    assert (got is sent) == (json.loads(got) == json.loads(sent) or "NaN" in got.decode())


def test_deep_nesting_harms_nobody() -> None:
    deep = b'{"artifacts":[{"metadata":{"%b":%b}}]}' % (METADATA_KEY.encode(), b"[" * 50_000 + b"]" * 50_000)
    assert guard(deep) == b'{"artifacts":[{}]}'
    assert guard(deep[:-40_000]) == deep[:-40_000]  # no JSON


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
