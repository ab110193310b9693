"""The recorder: what is reported by hand, by context manager and by decorator, in tasks and threads, to the schema."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib.resources import files
from itertools import count
from typing import Any

import a2a_tool_capture
import pytest
from a2a.types import Artifact, StreamResponse
from a2a_tool_capture import METADATA_KEY, URI, ToolCallRecorder, read_tool_calls
from a2a_tool_capture.json_values import MAX_VALUES
from a2a_tool_capture.models import ToolCallSource
from a2a_tool_capture.recorder import CallRecording
from google.protobuf.json_format import MessageToDict, MessageToJson, Parse
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

SCHEMA = Draft202012Validator(
    json.loads(files(a2a_tool_capture).joinpath("schema", "tool-call-capture-v1.schema.json").read_text("utf-8"))
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST, SECOND = (f"call-{number:032x}" for number in (1, 2))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> ToolCallRecorder:
    """Its ids are numbers."""
    numbers = count(1)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
    return ToolCallRecorder()


@pytest.fixture
def recording(recorder: ToolCallRecorder) -> Iterator[CallRecording]:
    """The recording of a request that activated the extension and is being served."""
    with recorder.request() as current:
        assert current is not None
        yield current


def wire(recording: CallRecording) -> list[dict[str, Any]]:
    """Entries as they are written, held against the schema, without their times."""
    entries = recording.metadata()[METADATA_KEY]
    SCHEMA.validate(entries)
    return [{key: value for key, value in entry.items() if key not in ("started_at", "ended_at")} for entry in entries]


def test_a_call_step_by_step(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    arguments = {"q": ["kettle"]}
    first, second = recorder.started("search", arguments), recorder.started("pay", id="theirs")
    arguments["q"].append("cup")
    assert wire(recording) == [
        {"id": first, "name": "search", "arguments": {"q": ["kettle"]}},
        {"id": second, "name": "pay", "arguments_unknown": True},
    ]
    assert (first, second) == (FIRST, "theirs")
    recorder.failed(second, PermissionError("card declined"))
    recorder.finished(first, {"found": 1})
    assert [(call.result, call.error) for call in recorder.tool_calls] == [
        ('{"found": 1}', None),
        (None, "card declined"),
    ]


def test_a_request_that_did_not_activate_hides_the_one_around_it(
    recorder: ToolCallRecorder, recording: CallRecording
) -> None:
    with recorder.request(activated=False) as inner:
        assert inner is None
        recorder.record("search")
    with recorder.request():
        recorder.record("pay")
    assert recorder.current is recording
    assert recording.tool_calls == []


def test_a_call_as_a_context(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    with recorder.call("search", {"q": "kettle"}, id="theirs") as call:
        call.result = ["KET-01"]
    with recorder.call("pay") as call:
        call.error = "card declined"
    with recorder.call("wait"):
        pass
    assert [(call.name, call.id, call.result, call.error) for call in recording.tool_calls] == [
        ("search", "theirs", '["KET-01"]', None),
        ("pay", FIRST, None, "card declined"),
        ("wait", SECOND, None, None),
    ]
    assert all(call.ended_at for call in recording.tool_calls)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no such order"), "no such order"),
        (KeyError(), "KeyError"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_an_exception_becomes_the_error_and_goes_on(
    recorder: ToolCallRecorder, recording: CallRecording, raised: BaseException, error: str
) -> None:
    with pytest.raises(type(raised)), recorder.call("search"):
        raise raised
    assert [call.error for call in recording.tool_calls] == [error]


class Line(BaseModel):
    sku: str
    qty: int = 3


def test_arguments_that_are_the_tools_defaults_are_marked(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    """A framework fills them in before it calls the function: the model need not have given them. Models have what was
    given as arguments, and all as result."""

    @recorder.tool
    def order(line: Line, qty: int = 3, tags: tuple[str, ...] = (), size: int = Field(default=4)) -> Line:
        """Order something."""
        return line

    assert (order.__name__, order.__doc__) == ("order", "Order something.")
    order(Line(sku="A"), qty=3, tags=(), size=4)
    order(line=Line(sku="A", qty=3), qty=5)
    given = [{"line": {"sku": "A"}}, {"line": {"sku": "A", "qty": 3}, "qty": 5}]
    defaults = [{"qty": 3, "tags": [], "size": 4}, {}]
    assert [entry["arguments"] for entry in wire(recording)] == [{**given[0], **defaults[0]}, given[1]]
    assert [entry.get("default_arguments") for entry in wire(recording)] == [list(defaults[0]), None]
    assert [entry["result"] for entry in wire(recording)] == ['{"sku": "A", "qty": 3}'] * 2
    read = read_tool_calls(over_the_wire(recording)).tool_calls
    for calls in (recording.tool_calls, read):
        assert [(call.arguments_given, set(call.default_arguments)) for call in calls] == [
            (arguments, set(more)) for arguments, more in zip(given, defaults, strict=True)
        ]


async def test_decorated_coroutine_functions(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    @recorder.tool(name="shop.search")
    async def search(q: str, **filters: Any) -> None:
        await asyncio.sleep(0)

    assert await search("kettle", colour="red") is None
    with pytest.raises(TypeError):
        await search()  # type: ignore[call-arg]
    assert [(call.name, call.arguments, call.result, call.error) for call in recording.tool_calls] == [
        ("shop.search", {"q": "kettle", "colour": "red"}, "null", None),
        ("shop.search", {}, None, recording.tool_calls[1].error),
    ]
    assert "missing 1 required positional argument: 'q'" in (recording.tool_calls[1].error or "")


def test_decorated_methods_leave_self_out(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    class Shop:
        @recorder.tool
        def search(self, q: str) -> str:
            return q

        @classmethod
        @recorder.tool
        def open(cls, *doors: str) -> str:
            return "open"

    Shop().search("kettle")
    Shop.open("front", "back")
    assert [call.arguments for call in recording.tool_calls] == [{"q": "kettle"}, {"doors": ["front", "back"]}]


async def test_coroutine_functions_behind_an_ordinary_decorator(
    recorder: ToolCallRecorder, recording: CallRecording
) -> None:
    async def search(q: str) -> str:
        return q.upper() if q else str(1 / 0)

    decorated = recorder.tool(name="search")(lambda q: search(q))
    coming = decorated("kettle")
    assert [call.ended_at for call in recording.tool_calls] == [None]
    assert await coming == "KETTLE"
    with pytest.raises(ZeroDivisionError):
        await decorated("")
    assert [(entry.get("result"), entry.get("error")) for entry in wire(recording)] == [
        ("KETTLE", None),
        (None, "division by zero"),
    ]


async def test_decorated_objects_that_are_called(recorder: ToolCallRecorder, recording: CallRecording) -> None:
    class Search:
        async def __call__(self, q: str) -> str:
            return q.upper()

    search = recorder.tool(name="search")(Search())
    assert await search("kettle") == "KETTLE"
    assert recorder.tool(name="add")(functools.partial(pow, 2))(3) == 8
    assert [(entry["name"], entry["result"]) for entry in wire(recording)] == [("search", "KETTLE"), ("add", "8")]
    with pytest.raises(TypeError, match="has no name; pass one"):
        recorder.tool(functools.partial(pow, 2))


def test_generators_are_refused(recorder: ToolCallRecorder) -> None:
    with pytest.raises(TypeError, match="'pages' is a generator"):

        @recorder.tool
        def pages() -> Iterator[int]:
            yield 1


@pytest.mark.parametrize(
    ("script", "calls", "logged"),
    [
        pytest.param(
            [
                ("record", "second", {"started_at": NOON + timedelta(hours=2)}),
                ("record", "first", {"started_at": NOON + timedelta(hours=1)}),
            ],
            [("first", SECOND, None, None, None), ("second", FIRST, None, None, None)],
            "",
            id="calls are listed in the order they began",
        ),
        pytest.param(
            [
                ("record", "search", {"id": "c1", "source": ToolCallSource.OPENAI_AGENTS}),
                ("record", "search", {"q": "kettle"}, {"id": "c1"}),
                ("record", "search", {"id": "c1", "result": "KET-01"}),
            ],
            [("search", "c1", {"q": "kettle"}, "KET-01", None)],
            "",
            id="an id told again fills the call in",
        ),
        pytest.param(
            [("record", "search", {"id": "c1"}), ("record", "pay", {"id": "c1", "error": "declined"})],
            [("search", "c1", None, None, None), ("pay", FIRST, None, None, "declined")],
            "'c1' of a call of 'pay' was used before",
            id="an id of another tool is replaced",
        ),
        pytest.param(
            [("started", "search", {"q": "kettle"}, {"id": "c1"}), ("failed", "c1", "try again", {})],
            [("search", "c1", {"q": "kettle"}, None, "try again")],
            "",
            id="a call that failed",
        ),
        pytest.param(
            [
                ("started", "search", {"q": "kettle"}, {"id": "c1"}),
                ("failed", "c1", "try again", {}),
                ("started", "search", {"q": "kettle"}, {"id": "c1"}),
            ],
            [("search", "c1", {"q": "kettle"}, None, None)],
            "",
            id="a call that is tried again",
        ),
        pytest.param(
            [
                ("started", "search", {"q": "kettle"}, {"id": "c1"}),
                ("failed", "c1", "try again", {}),
                ("started", "search", {"q": "kettle"}, {"id": "c1"}),
                ("finished", "c1", "KET-01", {}),
            ],
            [("search", "c1", {"q": "kettle"}, "KET-01", None)],
            "",
            id="a call tried again has the outcome of its last try",
        ),
        pytest.param(
            [("record", "", {"q": "kettle"}, {"result": "KET-01"})], [], "without a name", id="a call without a name"
        ),
        pytest.param([("finished", "never started", "KET-01", {})], [], "'never started'", id="the end of no call"),
    ],
)
def test_what_is_recorded(
    recording: CallRecording, script: list[Any], calls: list[Any], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be recorded is logged and never raised."""
    for method, *arguments, more in script:
        getattr(recording, method)(*arguments, **more)
    assert [(call.name, call.id, call.arguments, call.result, call.error) for call in recording.tool_calls] == calls
    source = script[0][-1].get("source", ToolCallSource.CLIENT)
    assert {call.source for call in recording.tool_calls} <= {source}
    assert recording.is_running("c1") is (script[-1][0] == "started")
    assert logged in caplog.text


@pytest.mark.parametrize(
    ("given_arguments", "arguments"),
    [
        ('{"q": "kettle"}', {"q": "kettle"}),
        ("{}", {}),
        ({}, {}),
        (None, None),
        ("kettle", None),
        ("[1]", None),
        ("[" * 100_000, None),
        (["kettle"], None),
    ],
    ids=str,
)
def test_arguments_as_models_hand_them_out(recording: CallRecording, given_arguments: Any, arguments: Any) -> None:
    recording.record("search", given_arguments)
    assert recording.tool_calls[0].arguments == arguments
    entry = wire(recording)[0]
    assert ("arguments" in entry, entry.get("arguments_unknown")) == (
        (True, None) if arguments is not None else (False, True)
    )


class Detached(Mapping[str, Any]):
    """As lazy objects are whose database is gone: nothing in it is available."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __len__(self) -> int:
        raise RuntimeError("no session")

    def __iter__(self) -> Iterator[str]:
        return iter(["key"])

    def __repr__(self) -> str:
        raise RuntimeError("no session")


class Account:
    """Its attributes are fetched when they are read."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no session")

    def __repr__(self) -> str:
        return "an account"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Detached(), '"<Detached>"'),
        ([1, Detached()], '[1, "<Detached>"]'),
        ([Account()], '["an account"]'),
    ],
)
def test_a_tool_does_not_fail_because_its_result_cannot_be_read(
    recorder: ToolCallRecorder, recording: CallRecording, value: Any, written: str
) -> None:
    @recorder.tool
    def look_up() -> Any:
        return value

    assert look_up() is value
    assert wire(recording) == [{"id": FIRST, "name": "look_up", "arguments": {}, "result": written}]


def test_objects_that_know_their_parents_are_written_once(recording: CallRecording) -> None:
    @dataclasses.dataclass
    class Node:
        parent: Node | None = None
        children: list[Node] = dataclasses.field(default_factory=list)

    root = Node()
    root.children += [Node(root) for _ in range(40)]
    recording.record("look_up", {}, result=root)
    leaf = {"parent": "<Node>", "children": []}
    assert json.loads(wire(recording)[0]["result"]) == {"parent": None, "children": [leaf] * 40}


def test_a_value_that_is_everywhere_is_written_so_often_and_not_more(recording: CallRecording) -> None:
    shared: list[Any] = []
    for _ in range(MAX_VALUES.bit_length() + 1):
        shared = [shared, shared]
    recording.record("look_up", {}, result=shared)
    assert wire(recording)[0]["result"].count("[") <= MAX_VALUES


class Size(Enum):
    LARGE = "L"


@dataclasses.dataclass
class Item:
    sku: str
    size: Size


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("says nothing")


class Broken(BaseModel):
    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("cannot")

    def __str__(self) -> str:
        return "a broken model"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2**53, 2**53),
        (10**5000, "<int>"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (True, True),
        ("\ud800", "?"),
        (Size.LARGE, "L"),
        (Item("KET-01", Size.LARGE), {"sku": "KET-01", "size": "L"}),
        (Broken(), "a broken model"),
        (Mute(), "<Mute>"),
        (Item, str(Item)),
        ({1: "one", Mute(): 2}, {"1": "one", "<Mute>": 2}),
        ((1, {2}), [1, [2]]),
        (b"raw", "b'raw'"),
        (NOON, str(NOON)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_python_values_become_json(recording: CallRecording, value: Any, written: Any) -> None:
    recording.record("tool", {"value": value}, result={"value": value})
    assert wire(recording)[0]["arguments"] == {"value": written}
    assert json.loads(wire(recording)[0]["result"]) == {"value": written}


def test_a_reader_knows_when_calls_ran(recording: CallRecording) -> None:
    one, two = recording.started("one", {}), recording.started("two", {})
    recording.finished(two, "2")
    recording.started("three", {})
    recording.finished(one, "1")
    times = [(call.name, call.started_at, call.ended_at) for call in recording.tool_calls]
    assert [ended is None for _, _, ended in times] == [False, False, True]
    read = read_tool_calls(over_the_wire(recording)).tool_calls
    assert [(call.name, call.started_at, call.ended_at) for call in read] == times


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**64, 10**23])
def test_integers_that_protobuf_rounds_are_exact(recording: CallRecording, number: int) -> None:
    """Readers that know the arguments only as protobuf and page have them get the digits."""
    recording.record("tool", {"id": number, "of": [{"id": number}], "n": 2.0}, result={"id": number}, id=number)
    entry = wire(recording)[0]
    assert entry["arguments"] == {"id": str(number), "of": [{"id": str(number)}], "n": 2}
    assert entry["id"] == str(number)
    [call] = read_tool_calls(over_the_wire(recording)).tool_calls
    assert call.arguments == {"id": number, "of": [{"id": number}], "n": 2}
    assert call.result == f'{{"id": {number}}}'


def deep(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def over_the_wire(recording: CallRecording) -> dict[str, Any]:
    """The calls in an artifact that was JSON and bytes in between."""
    event = StreamResponse()
    event.artifact_update.artifact.CopyFrom(Artifact(artifact_id="a", extensions=[URI]))
    event.artifact_update.artifact.metadata.update(recording.metadata())
    event = StreamResponse.FromString(Parse(MessageToJson(event), StreamResponse()).SerializeToString())
    artifact: dict[str, Any] = MessageToDict(event.artifact_update.artifact)
    return artifact


def circular() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["again"] = ring
    return ring


awkward = st.one_of(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters())
        | st.binary()
        | st.datetimes()
        | st.decimals(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=3)
            | st.tuples(inner)
        ),
        max_leaves=8,
    ),
    st.builds(circular),
)


@given(
    st.lists(
        st.tuples(st.text(st.characters(), min_size=1), awkward, awkward, awkward | st.builds(ValueError, st.text())),
        max_size=3,
    )
)
def test_whatever_tools_take_and_give_reaches_a_reader(calls: list[tuple[str, Any, Any, Any]]) -> None:
    """Valid by the schema, and alive after protobuf, its JSON and its bytes. What is unknown stays unknown."""
    recording = CallRecording()
    for name, argument, result, error in calls:
        recording.record(name, argument if argument in (None, {}) else {"it": argument}, result=result, error=error)
    SCHEMA.validate(recording.metadata()[METADATA_KEY])

    reading = read_tool_calls(over_the_wire(recording))
    assert reading.findings == []
    told = [(call.id, call.arguments, call.result, call.error) for call in recording.tool_calls]
    assert [(call.id, call.arguments, call.result, call.error) for call in reading.tool_calls] == told


@pytest.mark.parametrize("levels", [10, 23, 24, 25, 60, 50_000])
def test_however_deep_arguments_are_they_reach_a_reader(recording: CallRecording, levels: int) -> None:
    recording.record("tool", {"value": deep(levels)}, result=deep(levels))
    reading = read_tool_calls(over_the_wire(recording))
    assert reading.findings == []
    assert reading.tool_calls[0].arguments == recording.tool_calls[0].arguments
    if levels < 24:
        assert reading.tool_calls[0].arguments == {"value": deep(levels)}


# ── calls that cannot be told ───────────────────────────────────────────────────────────────────────────────


def test_between_requests_nothing_is_recorded_and_the_first_call_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    recorder = ToolCallRecorder()
    assert recorder.tool(name="look_up")(str.lower)("A") == "a"
    recorder.record("pay", {}, result="paid")
    assert recorder.started("pay", id="theirs") == "theirs"
    recorder.finished("theirs", "paid")
    recorder.failed("never started", "error")
    with recorder.call("pay") as call:
        call.result = "paid"
    assert (recorder.current, recorder.tool_calls, recorder.metadata()) == (None, [], {})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "a call of tool 'look_up' was not recorded" in record.getMessage()


def test_a_request_is_resumed_where_its_work_is_done() -> None:
    recorder = ToolCallRecorder()
    recording = recorder.new_recording()
    assert recording is not None

    def work() -> None:
        recorder.resume(recording)
        recorder.record("pay", {})
        recorder.resume(None)
        recorder.record("refund", {})

    contextvars.Context().run(work)
    assert [call.name for call in recording.tool_calls] == ["pay"]
    assert ToolCallRecorder(enabled=False).new_recording() is None
