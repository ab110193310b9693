"""What the test agents play, as data: neutral steps, and what a reader must make of them.

The first word of the user's text names the scenario, so a conversation reads like `chunks please`.
Both agents (a2a-sdk 1.x and 0.3) translate the same steps, and every expectation is written here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
METADATA_KEY = f"{URI}/tool_calls"
"""Written out on purpose: the agents must not learn the contract from the code under test."""

Call = dict[str, Any]

SEARCH: Call = {"id": "call-1", "name": "search", "arguments": {"q": "weather Berlin"}, "result": {"temp_c": 21.0}}
CONVERT: Call = {"id": "call-2", "name": "convert", "arguments": {"c": 21.0}, "result": {"f": 69.8}}
STORE: Call = {"id": "call-3", "name": "store", "arguments": {"tags": ["ä", "☃"], "n": 3}, "error": "disk full"}
SEARCH_ANNOUNCED: Call = {key: SEARCH[key] for key in ("id", "name", "arguments")}
BOTH = (SEARCH, CONVERT)

CUT_MARK = "cut-here"
"""Text after which the agent's server aborts the connection of a `cut` message."""

BIG_TEXT = "0123456789abcdef" * (3 * 1024 * 1024 // 16)
"""3 MiB of artifact text."""


@dataclass(frozen=True)
class Chunk:
    """One artifact update. `calls` and the URI are left out for clients that did not ask for the extension."""

    artifact_id: str
    text: str
    calls: tuple[Call, ...] = ()
    append: bool = False
    last: bool = False
    rich: bool = False
    """Also carries a data, a raw file and a URL file part."""


@dataclass(frozen=True)
class Status:
    """A task state in the words of A2A 0.3, e.g. `working`, with an optional text."""

    state: str
    text: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A whole Task object with these artifacts, sent as an event."""

    state: str
    artifacts: tuple[Chunk, ...]


@dataclass(frozen=True)
class Reply:
    """A Message instead of a task."""

    text: str


@dataclass(frozen=True)
class Gate:
    """Waits until the test opens the gate named by the second word of the user's text."""


@dataclass(frozen=True)
class Crash:
    """The executor raises."""

    message: str


Step = Chunk | Status | Snapshot | Reply | Gate | Crash


@dataclass(frozen=True)
class Scenario:
    """Steps and expectations. `{text}` in a text stands for the user's text.

    `calls` is what a reader knows at the end of a stream, `stored_calls` what a Task object read later (or a
    blocking send) shows, `stored_calls_v03` the same of an a2a-sdk 0.3 server: they differ where servers lose
    something when merging chunks. `findings` are codes expected after a stream.
    """

    steps: tuple[Step, ...]
    text: str
    state: str = "completed"
    calls: tuple[Call, ...] = ()
    stored_calls: tuple[Call, ...] | None = None
    stored_calls_v03: tuple[Call, ...] | None = None
    findings: tuple[str, ...] = ()

    def expected_calls(self, *, streamed: bool, v03_server: bool = False) -> tuple[Call, ...]:
        stored = self.stored_calls_v03 if v03_server and self.stored_calls_v03 is not None else self.stored_calls
        return self.calls if streamed or stored is None else stored


DONE = Status("completed")
WORKING = Status("working")

RESUMED = Scenario(
    (Chunk("art-1", "Hello, {text}!", BOTH, last=True), DONE),
    text="Hello, {text}!",
    calls=BOTH,
)
"""What follows when the user answers the question of `ask`."""

SCENARIOS: Mapping[str, Scenario] = {
    "artifact": Scenario(
        (
            Status("working", "working on it"),
            Chunk("art-1", "answer: 42", BOTH, last=True, rich=True),
            Status("completed", "done"),
        ),
        text="answer: 42\ndone",
        calls=BOTH,
    ),
    "chunks": Scenario(
        (
            WORKING,
            Chunk("art-s", "The ", BOTH),
            Chunk("art-s", "quick ", append=True),
            Chunk("art-s", "brown ", append=True),
            Chunk("art-s", "fox ☃ ", append=True),
            Chunk("art-s", "end.", append=True, last=True),
            DONE,
        ),
        text="The quick brown fox ☃ end.",
        calls=BOTH,
    ),
    # The server forgets a URI that only a late chunk lists, so the stored task's calls are not readable.
    "chunks-late": Scenario(
        (
            WORKING,
            Chunk("art-l", "l0 "),
            Chunk("art-l", "l1 ", append=True),
            Chunk("art-l", "l2 ", BOTH, append=True, last=True),
            DONE,
        ),
        text="l0 l1 l2 ",
        calls=BOTH,
        stored_calls=(),
    ),
    "chunks-repeat": Scenario(
        (
            WORKING,
            Chunk("art-r", "c0 ", BOTH),
            Chunk("art-r", "c1 ", BOTH, append=True),
            Chunk("art-r", "c2 ", BOTH, append=True, last=True),
            DONE,
        ),
        text="c0 c1 c2 ",
        calls=BOTH,
    ),
    "split": Scenario(
        (
            WORKING,
            Chunk("art-p", "looking ", (SEARCH_ANNOUNCED,)),
            Chunk("art-p", "found", (SEARCH,), append=True, last=True),
            DONE,
        ),
        text="looking found",
        calls=(SEARCH,),
        stored_calls_v03=(SEARCH_ANNOUNCED,),  # it keeps nothing of a later chunk's metadata
    ),
    "multi": Scenario(
        (
            WORKING,
            Chunk("art-a", "first", BOTH, last=True),
            Chunk("art-b", "second", (CONVERT, STORE), last=True),
            DONE,
        ),
        text="first\nsecond",
        calls=(SEARCH, CONVERT, STORE),
    ),
    "snapshot": Scenario(
        (
            WORKING,
            Chunk("art-1", "partial ", (SEARCH,)),
            Snapshot("completed", (Chunk("art-1", "partial and whole", BOTH),)),
        ),
        text="partial and whole",
        calls=BOTH,
    ),
    "snapshot-drops": Scenario(
        (
            WORKING,
            Chunk("art-1", "first try", BOTH),
            Snapshot("completed", (Chunk("art-1", "second try", (CONVERT,)),)),
        ),
        text="second try",
        calls=(CONVERT,),
        findings=("dropped_by_snapshot",),
    ),
    "ask": Scenario(
        (Status("input-required", "What is your name?"),),
        text="What is your name?",
        state="input-required",
    ),
    "fail": Scenario(
        (WORKING, Status("failed", "tool backend unavailable")),
        text="tool backend unavailable",
        state="failed",
        findings=("task_failed",),
    ),
    "ask-after": Scenario(
        (WORKING, Chunk("art-1", "Two flights found.", BOTH, last=True), Status("input-required", "Which one?")),
        text="Two flights found.\nWhich one?",
        state="input-required",
        calls=BOTH,
    ),
    "fail-after": Scenario(
        (WORKING, Chunk("art-1", "partial", BOTH, last=True), Status("failed", "no stock")),
        text="partial\nno stock",
        state="failed",
        calls=BOTH,
        findings=("task_failed",),
    ),
    "reject": Scenario((Status("rejected", "not yours"),), text="not yours", state="rejected"),
    "sign-in": Scenario((Status("auth-required", "Sign in first"),), text="Sign in first", state="auth-required"),
    "message": Scenario((Reply("echo: {text}"),), text="echo: {text}"),
    "slow": Scenario(
        (WORKING, Chunk("art-w", "before ", BOTH), Gate(), Chunk("art-w", "after", append=True, last=True), DONE),
        text="before after",
        calls=BOTH,
    ),
    "long": Scenario(
        (Status("working", "long job started"), Gate(), Chunk("art-1", "long job done", BOTH, last=True), DONE),
        text="long job done",
        calls=BOTH,
    ),
    "big": Scenario(
        (WORKING, Chunk("art-big", BIG_TEXT, BOTH, last=True), DONE),
        text=BIG_TEXT,
        calls=BOTH,
    ),
    "error": Scenario((WORKING, Crash("the executor crashed")), text="", state="failed"),
    # The task itself completes behind the broken connection; a later GetTask sees it.
    "cut": Scenario(
        (WORKING, Chunk("art-c", "before ", BOTH), Chunk("art-c", CUT_MARK, append=True, last=True), DONE),
        text=f"before {CUT_MARK}",
        calls=BOTH,
    ),
}


def scenario_of(text: str) -> Scenario:
    """The scenario the text's first word names. Raises KeyError, naming the known ones."""
    word = (text.split() or [""])[0]
    if word not in SCENARIOS:
        raise KeyError(f"no scenario {word!r}; known: {', '.join(SCENARIOS)}")
    return SCENARIOS[word]


def gate_of(text: str) -> str:
    """The gate's name: the text's second word."""
    words = text.split()
    if len(words) < 2:
        raise ValueError(f"{text!r} names no gate: a waiting scenario needs a second word")
    return words[1]
