"""What random clients say to the agent, by seed and number of the conversation. Pure.

A conversation is the same whatever others there are: `--only N` repeats it alone. What a plan asks for is lawful A2A:
a task is continued only if the message before asked for more, and a client has a way to see the end of each message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

TURNS_AT_MOST = 8
"""Messages of a conversation."""

NUMBERS_PER_CONVERSATION = 10
"""Turn 31 is the second one of conversation 3."""


class Manner(StrEnum):
    """How the client learns the end of its message."""

    UNARY = "unary"
    STREAM = "stream"
    POLL = "poll"
    """A non-blocking send, then GetTask until the end."""
    SUBSCRIBE = "subscribe"
    """A non-blocking send, then a subscription."""
    DROP_POLL = "drop, poll"
    """A stream that the client leaves, then GetTask until the end."""
    DROP_SUBSCRIBE = "drop, subscribe"
    NOTIFIED = "notified"
    """A non-blocking send; its webhook shows the end, and nothing else does."""


class Webhook(StrEnum):
    NONE = ""
    IN_MESSAGE = "webhook in message"
    AFTERWARDS = "webhook afterwards"
    """Set by a request of its own while the agent works."""


class End(StrEnum):
    COMPLETED = "completed"
    ASKS = "asks"
    """`TASK_STATE_INPUT_REQUIRED`: the next message may continue the task."""
    FAILED = "failed"
    MESSAGE = "message"
    """A Message and no task."""


class Binding(StrEnum):
    JSONRPC = "JSON-RPC"
    HTTP_JSON = "HTTP+JSON"
    GRPC = "gRPC"


class Artifacts(StrEnum):
    """Where the agent puts its answer, and with it the calls made before."""

    SEPARATE = "separate"
    CHUNKS = "chunks"
    """One artifact, which grows."""
    SHARED = "shared"
    """One artifact for all messages of a task, replaced each time."""


class Ids(StrEnum):
    """Of messages."""

    UNIQUE = "unique"
    REUSED = "reused"
    """The same in all conversations."""
    ABSENT = "absent"


@dataclass(frozen=True)
class Turn:
    """One message and what the agent does about it. Times in seconds."""

    number: int
    manner: Manner
    webhook: Webhook
    end: End
    continues: bool
    """Whether the message names the task of the one before."""
    calls: tuple[int, ...]
    """Tool calls before each event with an artifact, and after the last one."""
    pauses: tuple[float, ...]
    """Of the agent, before each of `calls`."""
    artifacts: Artifacts
    message_ids: Ids
    send: Binding
    read: Binding
    """Of the requests after the first: GetTask, subscriptions, webhooks."""
    drop_after: int
    """Events that a client reads before it leaves its stream."""
    wait: float
    """Of the client, before it sends."""
    poll_every: float
    own_webhook: bool
    """Whether the webhook has an id of its own; without, it replaces the one that the task has."""

    @property
    def call_count(self) -> int:
        return sum(self.calls)

    def instruction(self) -> str:
        """The text of the message, which the agent carries out."""
        return json.dumps(
            {
                "turn": self.number,
                "end": self.end,
                "calls": self.calls,
                "pauses": self.pauses,
                "artifacts": self.artifacts,
                "gate": self.webhook is Webhook.AFTERWARDS,
            },
            separators=(",", ":"),
        )


@dataclass(frozen=True)
class Conversation:
    number: int
    own_context: bool
    """Whether the client names the context from the first message on; else the agent does."""
    turns: tuple[Turn, ...]


def instruction_of(text: str) -> dict[str, Any]:
    """Inverse of `Turn.instruction`. Raises ValueError for any other text."""
    wish = json.loads(text)
    if not isinstance(wish, dict) or not isinstance(wish.get("turn"), int):
        raise ValueError(f"not an instruction: {text[:100]}")
    return wish


def conversations(seed: int, turns: int) -> Iterator[Conversation]:
    """As many as have that number of turns together, or up to `TURNS_AT_MOST` - 1 more."""
    number = planned = 0
    while planned < turns:
        one = conversation(seed, number)
        yield one
        number += 1
        planned += len(one.turns)


def conversation(seed: int, number: int) -> Conversation:
    dice = Random(f"{seed}/{number}")
    turns: list[Turn] = []
    for index in range(dice.randint(1, TURNS_AT_MOST)):
        asked = bool(turns) and turns[-1].end is End.ASKS
        continues = asked and dice.random() < 0.9
        turns.append(_turn(number * NUMBERS_PER_CONVERSATION + index, dice, continues=continues))
    return Conversation(number, dice.random() < 0.3, tuple(turns))


def _turn(number: int, dice: Random, *, continues: bool) -> Turn:
    end = dice.choices((End.ASKS, End.COMPLETED, End.FAILED, End.MESSAGE), (60, 26, 6, 0 if continues else 8))[0]
    if end is End.MESSAGE:
        manner, webhook = dice.choice((Manner.UNARY, Manner.STREAM, Manner.POLL)), Webhook.NONE
    else:
        manner = dice.choice(list(Manner))
        webhook = _webhook(manner, dice)
    calls, pauses = (), (_pause(dice),)
    if end is not End.MESSAGE:  # which cannot carry calls
        events = dice.choices((0, 1, 2, 3), (15, 40, 30, 15))[0]
        calls = _spread(dice.choices((0, 1, 2, 3), (15, 35, 35, 15))[0], events + 1, dice)
        pauses = tuple(_pause(dice) for _ in calls)
    return Turn(
        number=number,
        manner=manner,
        webhook=webhook,
        end=end,
        continues=continues,
        calls=calls,
        pauses=pauses,
        artifacts=dice.choices(list(Artifacts), (60, 25, 15))[0],
        message_ids=dice.choices(list(Ids), (70, 20, 10))[0],
        send=dice.choice(list(Binding)),
        read=dice.choice(list(Binding)),
        drop_after=dice.randint(1, 4),
        wait=_wait(dice),
        poll_every=dice.choice((0.02, 0.05, 0.2)),
        own_webhook=dice.random() < 0.2,
    )


def _webhook(manner: Manner, dice: Random) -> Webhook:
    if manner is Manner.NOTIFIED:
        return dice.choice((Webhook.IN_MESSAGE, Webhook.AFTERWARDS))
    kinds = [Webhook.NONE, Webhook.NONE, Webhook.NONE, Webhook.IN_MESSAGE]
    if manner is not Manner.UNARY:  # whose client knows no task before the end
        kinds.append(Webhook.AFTERWARDS)
    return dice.choice(kinds)


def _spread(calls: int, places: int, dice: Random) -> tuple[int, ...]:
    counts = [0] * places
    for _ in range(calls):
        counts[dice.randrange(places)] += 1
    return tuple(counts)


def _pause(dice: Random) -> float:
    """Of the agent: mostly none that a person would notice."""
    return round(dice.choices((0.0, dice.uniform(0.0, 0.05), dice.uniform(0.05, 0.4)), (50, 35, 15))[0], 3)


def _wait(dice: Random) -> float:
    """Of the client, from 0 to 3 s, mostly short."""
    return round(dice.choices((0.0, dice.uniform(0.0, 0.2), dice.uniform(0.2, 3.0)), (50, 30, 20))[0], 3)
