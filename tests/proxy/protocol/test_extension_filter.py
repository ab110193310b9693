"""Taking the extension out of bodies: all of it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from a2a_eval_proxy.protocol.extension_filter import UnreadableError, UnreadBodyFilter, strip
from a2a_eval_proxy.protocol.sse import SseSplitter
from a2a_tool_capture import METADATA_KEY, URI, json_limits
from a2a_tool_capture.extension_filter import names_extension
from a2a_tool_capture.spec import BASE_URI
from hypothesis import example, given
from hypothesis import strategies as st
from support.recordings import Recording, anonymous, names

OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")
PAIRS = [name.removesuffix("-ext") for name in names("*-ext")]


def nobody(_: str) -> bool:
    return False


def left_of(content: bytes, keep_task: Callable[[str], bool] | None, *, withheld: set[str] | None = None) -> Any:
    """What is left of `content`; what it holds is read besides, and not changed by that."""
    left, read = strip(content, keep_task, withheld=withheld)
    assert read is None or read == orjson.loads(content)
    return left


def guard(content: bytes) -> bytes:
    """What is left of `content`, whether tasks may be kept or not."""
    left = left_of(content, None)
    assert isinstance(left, bytes)
    assert left == left_of(content, nobody)
    return left


def body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def stripped(value: Any) -> Any:
    return json.loads(guard(body(value)))


LEFT = {"artifactId": "a", "parts": [{"text": "x"}]}


def artifact(**more: Any) -> dict[str, Any]:
    return {**LEFT, "metadata": {METADATA_KEY: [{"name": "x"}]}, "extensions": [URI], **more}


# ── recorded traffic ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", PAIRS or ["none is recorded"])
def test_a_guarded_answer_is_the_one_to_a_client_that_never_asked(name: str) -> None:
    """Value for value, but for ids and times, which differ between any two answers."""
    asked, plain = Recording.load(f"{name}-ext"), Recording.load(name)
    assert METADATA_KEY.encode() in asked.response_body
    if asked.streams:
        got = [guard(event.data) for event in SseSplitter(1_000_000).feed(asked.response_body)]
        want = [event.data for event in SseSplitter(1_000_000).feed(plain.response_body)]
    else:
        got, want = [guard(asked.response_body)], [plain.response_body]
    written = [anonymous(json.dumps([json.loads(data) for data in answer])) for answer in (got, want)]
    assert written[0] == written[1], "and in the same order"


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


ASTRAY: dict[str, Callable[[Any], Any]] = {
    "message": lambda m: {"message": m},
    "0.3 message": lambda m: m,
    "status": lambda m: {"statusUpdate": {"taskId": "t", "status": {"state": "x", "message": m}}},
    "0.3 status": lambda m: {"kind": "status-update", "taskId": "t", "status": {"message": m}},
    "task": lambda m: {"id": "t", "status": {"message": m}, "history": [m, m], **m},
    "update": lambda m: {"artifactUpdate": {"taskId": "t", **m}},
}


SAID = {"parts": [{"text": "x"}]}
CALLING = {**SAID, "metadata": {METADATA_KEY: [1]}, "extensions": [URI]}


@pytest.mark.parametrize("enveloped", [False, True])
@pytest.mark.parametrize("place", [*HOLDERS, *ASTRAY])
def test_calls_are_taken_out_wherever_they_are(place: str, enveloped: bool) -> None:
    """In the wrong place, too: put there by an agent that was asked by the proxy, not by its client."""
    holder, calling, bare = (HOLDERS[place], artifact(), LEFT) if place in HOLDERS else (ASTRAY[place], CALLING, SAID)
    sent, left = holder(calling), holder(bare)
    if enveloped:
        sent, left = ({"jsonrpc": "2.0", "id": "t", "result": one} for one in (sent, left))
    assert stripped(sent) == left


def test_the_answers_to_a_batch() -> None:
    answers = [{"jsonrpc": "2.0", "id": n, "result": {"id": f"t{n}", "artifacts": [artifact()]}} for n in (1, 2)]
    asked, other = json.loads(left_of(body(answers), "t1".__eq__))
    assert asked == answers[0]
    assert other["result"] == {"id": "t2", "artifacts": [LEFT]}


MIXED = artifact(metadata={"x": 1, METADATA_KEY: [], "y": 2}, extensions=[OTHER, URI])
TEXT_AND_CALLS = [{"text": "", "metadata": {METADATA_KEY: [1]}}, {"text": "hi"}]
USER = {"role": "user", "parts": [{"text": "hi"}]}
MENTIONS: list[Any] = [
    {"status": {"message": {"metadata": {"note": URI}, "extensions": [OTHER], "parts": [{"text": URI}]}}},
    {"history": [{"parts": [{"data": {"found": [URI], "metadata": [METADATA_KEY]}}]}]},
    {"artifacts": [{"artifactId": "a", "metadata": {"note": METADATA_KEY}}]},
    {"artifacts": [{"artifactId": "a", "extensions": [OTHER, [URI]]}]},
    {"artifacts": [{"artifactId": URI, "metadata": [METADATA_KEY], "extensions": URI}]},
    {"artifact": METADATA_KEY, "result": [METADATA_KEY]},
]
STRIPPED: list[tuple[Any, Any]] = [
    ({"artifacts": [MIXED]}, {"artifacts": [{**LEFT, "metadata": {"x": 1, "y": 2}, "extensions": [OTHER]}]}),
    ({"artifacts": [{**LEFT, METADATA_KEY: [1]}]}, {"artifacts": [LEFT]}),
    ({"metadata": {"deep": [{"x": {METADATA_KEY: 1, "y": 2}}]}}, {"metadata": {"deep": [{"x": {"y": 2}}]}}),
    ({"parts": [{"data": {METADATA_KEY: [1], "kept": 1}}]}, {"parts": [{"data": {"kept": 1}}]}),
    ({"data": {"extensions": [[{"extensions": [URI, 1]}]]}}, {"data": {"extensions": [[{"extensions": [1]}]]}}),
    ({"error": {"data": [{"metadata": {METADATA_KEY: 1}, "a": 1}]}}, {"error": {"data": [{"a": 1}]}}),
    ({"unheard_of": {BASE_URI: 1}, "x": [[[{URI: {}}]]]}, {"unheard_of": {}, "x": [[[{}]]]}),
    # what exists for its calls alone
    (
        {"id": "t", "history": [USER, {"role": "agent", "parts": [{"text": ""}], "metadata": {METADATA_KEY: [1]}}]},
        {"id": "t", "history": [USER]},
    ),
    ({"message": {"parts": TEXT_AND_CALLS}}, {"message": {"parts": [{"text": "hi"}]}}),
    ({"message": {"parts": TEXT_AND_CALLS[:1]}}, {"message": {"parts": [{"text": ""}]}}),
    # what only mentions it is none of ours
    *(({"id": "t", **one}, {"id": "t", **one}) for one in MENTIONS),
]


@pytest.mark.parametrize(("sent", "left"), STRIPPED)
def test_it_is_found_at_any_depth_and_all_else_stays(sent: Any, left: Any) -> None:
    assert stripped(sent) == left


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


def test_of_repeated_keys_one_is_left() -> None:
    """Readers disagree about which one counts: they all get the last."""
    ours = f'{{"{METADATA_KEY}":[1]}}'
    artifact = f'{{"artifactId":{ours},"y":1,"artifactId":"a","extensions":["{URI}"],"extensions":[]}}'
    assert guard(f'{{"artifacts":[{ours}],"artifacts":[{artifact}]}}'.encode()) == body(
        {"artifacts": [{"artifactId": "a", "y": 1, "extensions": []}]}
    )


@pytest.mark.parametrize(
    "number",
    ["-0.0", "1.5", "1e22", str(2**63), str(-(2**63)), str(2**64 + 1), "9" * 40, "0.1", "1.7976931348623157e308"],
)
def test_numbers_keep_their_values(number: str) -> None:
    text = f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"{METADATA_KEY}":[{number}],"n":{number}}}}}]}}'
    left = f'{{"id":{number},"artifacts":[{{"x":{number},"metadata":{{"n":{number}}}}}]}}'
    assert repr(json.loads(guard(text.encode()))) == repr(json.loads(left))


@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_what_python_writes_as_a_number_stays(number: str) -> None:
    text = f'{{"artifacts":[{{"x":{number},"metadata":{{"{METADATA_KEY}":[{number}]}}}}]}}'
    assert guard(text.encode()).decode() == f'{{"artifacts":[{{"x":{number}}}]}}'


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000])
def test_a_number_that_would_not_be_the_same_again_is_refused(number: str) -> None:
    with pytest.raises(UnreadableError):
        guard(f'{{"x":{number},"extensions":["{URI}"]}}'.encode())
    assert guard(f'{{"x":{number}}}'.encode()) == f'{{"x":{number}}}'.encode()


@pytest.mark.parametrize(
    "codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_no_encoding_is_a_hiding_place(codec: str) -> None:
    sent, left = ({"artifacts": [one], "x": "\U0001f375"} for one in (artifact(), LEFT))
    got = guard(body(sent).decode().encode(codec))
    assert json.loads(got) == left
    assert json.detect_encoding(got) == json.detect_encoding(body(left).decode().encode(codec))


@pytest.mark.parametrize(
    ("text", "read"), [(b"a\n\t\x01b", "a\n\t\x01b"), (b"\xff\xc3", "\ufffd\ufffd"), (b"\\ud800", "\ud800")]
)
def test_what_only_some_clients_read_is_no_hiding_place(text: bytes, read: str) -> None:
    """Control characters, bytes that are not UTF-8, half a character."""
    content = body({"artifacts": [artifact(parts=[{"text": "?"}])]}).replace(b"?", text)
    assert json.loads(guard(content)) == {"artifacts": [{"artifactId": "a", "parts": [{"text": read}]}]}


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
        assert left_of(body({"result": {holder: {"taskId": "t", "artifact": own}}}), nobody, withheld=set()) is None
    legacy = {"kind": "artifact-update", "taskId": "t", "artifact": own, "lastChunk": True}
    assert left_of(body({"jsonrpc": "2.0", "id": 1, "result": legacy}), nobody, withheld=set()) is None


@pytest.mark.parametrize("kept", NOT_ONLY_CALLS)
def test_an_artifact_that_holds_something_else_stays(kept: dict[str, Any]) -> None:
    (left,) = stripped({"artifacts": [kept]})["artifacts"]
    assert left["artifactId"] == "tool-calls-1"
    event = left_of(body({"artifactUpdate": {"taskId": "t", "artifact": kept}}), nobody, withheld=set())
    assert event is not None
    assert json.loads(event)["artifactUpdate"]["artifact"] == left


def test_it_stays_where_its_task_was_asked_for() -> None:
    for content in ({"artifacts": [OWN], "id": "asked"}, {"artifactUpdate": {"taskId": "asked", "artifact": OWN}}):
        sent = body(content)
        assert left_of(sent, "asked".__eq__, withheld=set()) == sent
    tasks = [{"id": "asked", "artifacts": [artifact()]}, {"artifacts": [artifact()], "id": "other"}]
    left = json.loads(left_of(body({"tasks": tasks}), "asked".__eq__))
    assert left == {"tasks": [tasks[0], {"artifacts": [LEFT], "id": "other"}]}


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
    got = [event for item in sent if (event := left_of(body(item), nobody, withheld=withheld)) is not None]
    assert [json.loads(event) for event in got] == left


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


@pytest.mark.parametrize("result", [{"id": "other", "artifacts": [artifact()]}, {"artifacts": [artifact()]}])
def test_the_envelopes_id_is_no_task(result: Any) -> None:
    content = {"jsonrpc": "2.0", "id": "asked", "result": result}
    left = json.loads(left_of(body(content), lambda task_id: task_id == "asked"))
    assert left["result"]["artifacts"] == [LEFT]


# ── any JSON ────────────────────────────────────────────────────────────────────────────────────────────────

ours = st.sampled_from([URI, METADATA_KEY, BASE_URI, LATER, f"{LATER}/tool_calls"])
theirs = st.sampled_from(["x", "id", "metadata", "extensions", "artifacts", "parts", "result", OTHER, f"{BASE_URI}-x"])
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | ours
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner | ours, max_size=3) | st.dictionaries(theirs | ours | st.text(), inner, max_size=4),
    max_leaves=30,
)
spellings: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: json.dumps(text).replace("t", "\\u0074").replace("-", "\\u002D"),
    ]
)


def rendered(value: Any, spelt: Callable[[str], str]) -> str:
    """JSON with every text spelt so."""
    if isinstance(value, str):
        return spelt(value)
    if isinstance(value, list):
        return "[" + ", ".join(rendered(item, spelt) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{spelt(key)}: {rendered(item, spelt)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def is_ours(name: Any) -> bool:
    return isinstance(name, str) and (name == BASE_URI or name.startswith(f"{BASE_URI}/"))


def named(value: Any) -> bool:
    """Whether the extension is anywhere in it."""
    if isinstance(value, list):
        return any(map(named, value))
    if not isinstance(value, dict):
        return False
    listed = value.get("extensions")
    return any(map(is_ours, [*value, *(listed if isinstance(listed, list) else ())])) or any(map(named, value.values()))


def bare(value: Any) -> Any:
    """Without the extension, and without what may go when it is gone."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    left = {name: bare(item) for name, item in value.items() if not is_ours(name)}
    for name in ("artifacts", "parts"):  # those that hold nothing may go
        if isinstance(left.get(name), list):
            left[name] = [entry for entry in left[name] if not (isinstance(entry, dict) and not any(entry.values()))]
    if isinstance(left.get("extensions"), list):
        left["extensions"] = [uri for uri in left["extensions"] if not is_ours(uri)]
    return {
        name: item
        for name, item in left.items()
        if item or name not in ("artifacts", "parts", "metadata", "extensions")
    }


@given(documents, spellings)
def test_nothing_of_it_is_left_and_all_else_stays(document: Any, spelt: Callable[[str], str]) -> None:
    sent = rendered(document, spelt).encode("utf-8", "surrogatepass")
    got = guard(sent)
    left = json.loads(got)
    assert not named(left)
    assert repr(bare(left)) == repr(bare(json.loads(sent.decode("utf-8", "surrogatepass")))), "numbers and order, too"
    assert (got is sent) == (not names_extension(sent))
    assert guard(got) == got


# ── what is no JSON ─────────────────────────────────────────────────────────────────────────────────────────


def unread(content: bytes) -> bytes:
    """What is left of content that is no JSON: everything, where it does not name the extension."""
    try:
        return guard(content)
    except UnreadableError:
        assert names_extension(content)
        return b""


@given(documents, spellings, st.integers(0, 10_000))
def test_of_a_truncated_body_nothing_passes_that_names_it(document: Any, spelt: Callable[[str], str], at: int) -> None:
    whole = rendered({"x": document, "extensions": [URI]}, spelt).encode("utf-8", "surrogatepass")
    part = whole[: at % len(whole)]
    got = unread(part)
    assert got == b"" if names_extension(part) else got is part


@given(st.binary(max_size=40))
@example(b"")
@example(b"\\u00")
@example(b"\0\0")
def test_junk_comes_back_as_it_is(junk: bytes) -> None:
    assert unread(junk) is (b"" if names_extension(junk) else junk)


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


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [300, 1_500, 50_000])
def test_what_nests_too_deeply_is_refused_where_it_names_it(brackets: tuple[bytes, bytes], depth: int) -> None:
    deep = brackets[0] * depth + b"1" + brackets[1] * depth
    assert guard(b'{"a\\u0020":%b}' % deep) == b'{"a\\u0020":%b}' % deep
    with pytest.raises(UnreadableError):
        guard(b'{"x":%b,"extensions":["%b"]}' % (deep, URI.encode()))
