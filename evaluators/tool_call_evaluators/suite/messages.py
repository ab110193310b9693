"""What a user says in a turn of a case: a text, parts, or a named answer to what the agent asked."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from a2a_tool_capture.approvals import Answer, Part, answer_in, file_part, message_words

from ..suite_fields import TEXT, FieldError, Schema, at, checked_object, each, text

MAX_FILE_BYTES = 10_000_000
"""Of a file that a turn sends: it is sent as JSON, in memory."""

_ANSWERS = ("approve", "reject", "choose")


class UserMessage(str):
    """A message, as the words by which people and reports know it: of an answer `approve`, of data its JSON.

    `content` is the object that a document has in place of a text; None for a text.
    """

    content: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """From the object of a document, which `read_message` has checked."""
        answer = _answer(content)
        words = answer.words if answer else message_words({"parts": list(map(_named_part, content["parts"]))})
        message = cls(words)
        message.content = content
        return message

    @property
    def is_answer(self) -> bool:
        """Whether it approves, rejects or chooses: words that fit many questions."""
        return _answer(self.content or {}) is not None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """That of the message."""
        return (self.content or {}).get("metadata") or {}

    def to_send(self) -> str | list[Part] | Answer:
        """What a client sends. Raises OSError for a file that cannot be read, ValueError for one that is too large."""
        if self.content is None:
            return str(self)
        return _answer(self.content) or [_part(part) for part in self.content["parts"]]


def sent_message(words: str, parts: Sequence[Part] | None, waiting: Sequence[Mapping[str, Any]] = ()) -> str:
    """The message of a turn that was captured with these words, as a suite has it; `parts` as in `kept_parts`,
    `waiting` and errors as in `answer_in`."""
    return UserMessage.of(_written(parts, waiting)) if parts else words


def is_kept(parts: Sequence[Part] | None, waiting: Sequence[Mapping[str, Any]] = ()) -> bool:
    """Whether a suite can send a message with these parts, as in `kept_parts`; `waiting` as in `answer_in`."""
    try:
        return parts is None or bool(read_message(_written(parts, waiting), str))
    except ValueError:
        return False


def _written(parts: Sequence[Part], waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if answer := answer_in(parts, waiting):
        return {answer.kind: answer.value if answer.kind == "choose" else answer.value or True}
    return {"parts": list(map(_written_part, parts))}


def read_message(value: Any, path_of: Callable[[str], str]) -> str:
    """A text, or an object of one of the forms; `path_of` gives the path of a file that may be sent. Raises
    FieldError."""
    if not isinstance(value, dict):
        return text(value)
    answers = [key for key in _ANSWERS if key in value]
    if answers:
        checked_object(value, answers[:1])
        given = value[answers[0]]
        if answers[0] != "choose" and given is not True:
            at(answers[0], text, given)
        return UserMessage.of(value)
    entries = checked_object(value, ("parts", "metadata", *_ANSWERS), ("parts",))
    if "metadata" in entries:
        at("metadata", checked_object, entries["metadata"])
    parts = at("parts", lambda given: each(lambda part: _read_part(part, path_of), given), entries["parts"])
    if not parts:
        raise FieldError("needs at least one part", "parts")
    return UserMessage.of({**entries, "parts": list(parts)})


def _read_part(value: Any, path_of: Callable[[str], str]) -> dict[str, Any]:
    part = checked_object(value, ("text", "data", "file", "metadata"))
    if len(part.keys() - {"metadata"}) != 1:
        raise FieldError("expected one of text, data and file")
    if "text" in part:
        at("text", text, part["text"])
    if "metadata" in part:
        at("metadata", checked_object, part["metadata"])
    if isinstance(part.get("file"), str):
        return {**part, "file": at("file", lambda name: path_of(text(name)), part["file"])}
    if "file" in part:
        at("file", _check_inline, part["file"])
    return part


def _check_inline(value: Any) -> None:
    file = checked_object(value, ("name", "media_type", "bytes", "uri"))
    for key, given in file.items():
        at(key, text, given)
    if ("bytes" in file) == ("uri" in file):
        raise FieldError("expected bytes, in base64, or a uri")
    if "bytes" in file:
        at("bytes", lambda given: base64.b64decode(given, validate=True), file["bytes"])


def _answer(content: Mapping[str, Any]) -> Answer | None:
    key = next((key for key in _ANSWERS if key in content), None)
    if key is None:
        return None
    value = content[key]
    return Answer(cast(Any, key), None if value is True and key != "choose" else value)


def _part(part: Mapping[str, Any]) -> Part:
    """As JSON of A2A, with the content of a file."""
    file = part.get("file")
    if isinstance(file, str):
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"{file} has more than {MAX_FILE_BYTES:,} bytes")
        metadata = {"metadata": part["metadata"]} if "metadata" in part else {}
        return {**file_part(Path(file).name, content), **metadata}
    return _named_part(part)


_FILE_KEYS = {"name": "filename", "media_type": "mediaType", "bytes": "raw", "uri": "url"}


def _named_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON of A2A, without the content of a file that is elsewhere."""
    others = {key: value for key, value in part.items() if key != "file"}
    file = part.get("file", {})
    if isinstance(file, str):
        return {**others, "filename": Path(file).name}
    return {**others, **{_FILE_KEYS[key]: value for key, value in file.items()}}


def _written_part(part: Part) -> dict[str, Any]:
    """The inverse of `_named_part`."""
    file = {key: part[name] for key, name in _FILE_KEYS.items() if part.get(name)}
    others = {key: part[key] for key in ("text", "metadata") if part.get(key)}
    data = {"data": part["data"]} if "data" in part else {}
    return {**others, **data, **({"file": file} if file else {})}


_PART: Schema = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "data": {"description": "Any JSON."},
        "file": {
            "anyOf": [
                {**TEXT, "description": "A path, relative to the suite."},
                {
                    "type": "object",
                    "properties": {"name": TEXT, "media_type": TEXT, "bytes": TEXT, "uri": TEXT},
                    "additionalProperties": False,
                },
            ]
        },
        "metadata": {"type": "object"},
    },
    "additionalProperties": False,
}
_YES_OR_TEXT: Schema = {"anyOf": [{"const": True}, TEXT]}


def _object(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


MESSAGE_SCHEMA: Schema = {
    "anyOf": [
        TEXT,
        _object("parts", parts={"type": "array", "items": _PART, "minItems": 1}, metadata={"type": "object"}),
        _object("approve", approve={**_YES_OR_TEXT, "description": "The tool that is approved; true: all that wait."}),
        _object("reject", reject={**_YES_OR_TEXT, "description": "The reason, or true."}),
        _object("choose", choose={"description": "What is chosen: any JSON."}),
    ]
}
