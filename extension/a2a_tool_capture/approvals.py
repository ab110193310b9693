"""Tool calls that wait for the user's approval, as agents ask for it, and the answers that they expect. Sans-io.

| who asks | the question, a data part of the answer | approval, a data part of the next message |
| --- | --- | --- |
| google-adk | call of `adk_request_confirmation`, marked `adk_type` | its function response, `{"confirmed": true}` |
| kagent | the same, marked `kagent_type` | `{"decision_type": "approve"}` |
| Pydantic AI | `DeferredToolRequests`, `{"approvals": [...]}` | `DeferredToolResults`, `{"approvals": {id: true}}` |
| others | `{"tool": ..., "arguments": {...}}` | `{"approved": true}`, `{"choice": ...}` |

Where no call is named, the answer is a text: the agent asked in words.
"""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from .canonical import with_whole_numbers
from .json_limits import too_deep
from .json_values import plain_arguments, plain_text
from .models import WaitingCall
from .wire import parts_text

MAX_WAITING = 100
"""Waiting calls that are read of one answer."""
MAX_KEPT_CHARS = 50_000
"""Characters of the JSON of a message's parts up to which `kept_parts` keeps them."""

_CONFIRMATION = "adk_request_confirmation"
_ADK, _KAGENT, _PYDANTIC_AI, _OTHER = "adk_type", "kagent_type", "approvals", ""

Part = Mapping[str, Any]
"""A part of a message, as JSON of A2A 1.0."""


def waiting_calls(holder: Any, *, interrupts: bool) -> list[WaitingCall]:
    """The calls for which a message or an artifact (JSON object of A2A 1.0) asks for approval.

    `interrupts`: it is the message of the status with which the task waits for its user; in anything else, only a
    `DeferredToolRequests` counts, since Pydantic AI's own server completes the task.
    """
    parts = holder.get("parts") if isinstance(holder, dict) else None
    asked = (
        call
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and isinstance(data := _unwrapped(part.get("data"), "data"), dict)
        for call in _asked_in(data, _object(part.get("metadata")), interrupts=interrupts)
    )
    return list(islice(asked, MAX_WAITING))


def _asked_in(data: dict[str, Any], metadata: Mapping[str, Any], *, interrupts: bool) -> Iterable[WaitingCall]:
    if too_deep(data):
        return []
    requests = _unwrapped(data, "result")
    if isinstance(requests, dict) and isinstance(listed := requests.get(_PYDANTIC_AI), list):
        return (call for one in listed if (call := _call(_object(one), _PYDANTIC_AI)))
    if not interrupts:
        return []
    form = next((key for key in (_ADK, _KAGENT) if metadata.get(key) == "function_call"), _OTHER)
    if form == _OTHER:
        call = _call(data, _OTHER)
    elif data.get("name") == _CONFIRMATION:
        call = _call(_object(_object(data.get("args")).get("originalFunctionCall")), form, data.get("id"))
    else:
        call = None
    return [call] if call else []


_NAMES, _ARGUMENTS, _IDS = ("tool", "tool_name", "name"), ("arguments", "args", "input"), ("id", "tool_call_id")


def _call(data: Mapping[str, Any], form: str, question: Any = None) -> WaitingCall | None:
    """The call that an object describes; None where it describes none: a name alone may be that of anything."""
    name = next((data[key] for key in _NAMES if isinstance(data.get(key), str) and data[key]), None)
    arguments = plain_arguments(next((data[key] for key in _ARGUMENTS if key in data), None))
    if name is None or (arguments is None and data.keys().isdisjoint(("tool", "tool_name"))):
        return None
    call_id = next((data[key] for key in _IDS if isinstance(data.get(key), str)), "")
    arguments = with_whole_numbers(arguments)
    return WaitingCall(name, arguments, call_id, form, question if isinstance(question, str) else call_id)


class Answer(NamedTuple):
    """What a user answers to a question of the agent.

    `value` is the tool that is approved (None: all that wait), the reason of a rejection (None: none), or what is
    chosen, as JSON data.
    """

    kind: Literal["approve", "reject", "choose"]
    value: Any = None

    @property
    def words(self) -> str:
        """`approve`, `reject: too expensive`, or what is chosen: `2`."""
        if self.kind == "choose":
            return plain_text(self.value) or self.kind
        return self.kind if self.kind == "approve" or self.value is None else f"reject: {plain_text(self.value)}"

    def reason(self, key: str) -> dict[str, Any]:
        """The reason of a rejection under this key; {} without one."""
        return {key: self.value} if self.kind == "reject" and self.value is not None else {}

    def parts(self, waiting: Sequence[WaitingCall]) -> list[Part]:
        """The parts of the message that answers the question after which these calls wait."""
        calls = [call for call in waiting if self.kind != "approve" or self.value in (None, call.name)]
        if not calls:
            return [{"text": self.words}]
        return _ANSWERS[calls[0].form](self, calls)


def _to_adk(answer: Answer, calls: Sequence[WaitingCall]) -> list[Part]:
    """No text: google-adk refuses a message with both. A reason is payload."""
    payload = answer.value if answer.kind == "choose" else answer.reason("reason")
    response = {"confirmed": answer.kind != "reject", **({"payload": payload} if payload != {} else {})}
    return [
        {
            "data": {"id": call.question, "name": _CONFIRMATION, "response": response},
            "metadata": {_ADK: "function_response"},
        }
        for call in calls
    ]


def _to_kagent(answer: Answer, calls: Sequence[WaitingCall]) -> list[Part]:
    kind = "reject" if answer.kind == "reject" else "approve"
    return [{"data": {"decision_type": kind, **answer.reason("rejection_reason")}}]


def _to_pydantic_ai(answer: Answer, calls: Sequence[WaitingCall]) -> list[Part]:
    if answer.kind == "choose":
        return [{"data": {"calls": {call.id: answer.value for call in calls}}}]
    given = {"kind": "tool-denied", **answer.reason("message")} if answer.kind == "reject" else True
    return [{"data": {_PYDANTIC_AI: {call.id: given for call in calls}}}]


def _to_others(answer: Answer, calls: Sequence[WaitingCall]) -> list[Part]:
    given = {"approved": answer.kind == "approve", **answer.reason("reason")}
    if answer.kind == "choose":
        given = {"choice": answer.value}
    return [{"data": {**given, **({"id": call.id} if call.id else {})}} for call in calls]


_ANSWERS = {_ADK: _to_adk, _KAGENT: _to_kagent, _PYDANTIC_AI: _to_pydantic_ai, _OTHER: _to_others}


def answer_in(parts: Any, waiting: Sequence[Mapping[str, Any]] = ()) -> Answer | None:
    """The answer that the parts of a message give, the inverse of `Answer.parts`; None without one.

    With the `waiting` calls (`WaitingCall.to_dict`), an approval of some names their tool. Raises ValueError for an
    answer that is not the same for all calls of a tool, or rejects some, or where it is unknown which it is for.
    """
    data = [_object(_unwrapped(part.get("data"), "data")) for part in parts or () if isinstance(part, dict)]
    given = [answer for one in data if (answer := _answer(one, waiting)) is not None]
    if (
        waiting
        and any("id" in one for one in data)  # which of the calls they are for is unknown
        and (0 < len(given) < len(waiting) or len({one.kind for one in given}) > 1)
    ):
        raise ValueError("the waiting calls are not answered alike")
    return next((one for one in given if one.kind == "reject"), given[0] if given else None)


def _answer(data: Mapping[str, Any], waiting: Sequence[Mapping[str, Any]]) -> Answer | None:
    if data.get("name") == _CONFIRMATION:
        response = _object(data.get("response"))
        payload = response.get("payload")
        if response.get("confirmed") is True:
            return Answer("approve") if payload is None else Answer("choose", payload)
        return Answer("reject", _object(payload).get("reason"))
    if data.get("decision_type") in ("approve", "reject"):
        return Answer(data["decision_type"], data.get("rejection_reason"))
    if isinstance(given := data.get(_PYDANTIC_AI), dict) and given:
        denied = [one for one in given.values() if one is False or _object(one).get("kind") == "tool-denied"]
        answered, others = ({call["name"] for call in waiting if (call["id"] in given) is so} for so in (True, False))
        if waiting and (
            len(denied) not in (0, len(given)) or (others and (denied or answered & others or len(answered) != 1))
        ):
            raise ValueError("the waiting calls are not answered alike")
        return (
            Answer("reject", _object(denied[0]).get("message"))
            if denied
            else Answer("approve", *(answered if others else ()))
        )
    if isinstance(data.get("approved"), bool):
        return Answer("approve") if data["approved"] else Answer("reject", data.get("reason"))
    return Answer("choose", data["choice"]) if "choice" in data else None


def message_words(message: Any) -> str:
    """What a message (JSON object of any version of A2A) says: a named answer, else its text, else its data as JSON and
    the names of its files."""
    parts = kept_parts(message)
    if not parts:
        return parts_text(message)
    if answer := answer_in(parts):
        return answer.words
    return parts_text(message) or "\n".join(map(_words_of, parts))


def _words_of(part: Part) -> str:
    return plain_text(part["data"]) if "data" in part else str(part.get("filename") or "file")


def kept_parts(message: Any) -> list[dict[str, Any]] | None:
    """The parts of a message (JSON object of any version of A2A) in the form of 1.0; None where it is one text, as most
    are, and [] where their JSON has more than `MAX_KEPT_CHARS`."""
    parts = message.get("parts", message.get("content")) if isinstance(message, dict) else None
    if (
        not isinstance(parts, list)
        or not parts
        or (len(parts) == 1 and isinstance(parts[0], dict) and "text" in parts[0])
    ):
        return None
    kept = [_of_version_1(part) for part in parts if isinstance(part, dict)]
    texts = (value for part in kept for value in part.values() if isinstance(value, str))
    if sum(map(len, texts)) > MAX_KEPT_CHARS or too_deep(kept):  # a file takes long to write as JSON
        return []
    return with_whole_numbers(kept) if len(json.dumps(kept)) <= MAX_KEPT_CHARS else []


_FILE = {"name": "filename", "bytes": "raw", "uri": "url", "mimeType": "mediaType"}
_FILE |= {"fileWithBytes": "raw", "fileWithUri": "url", "media_type": "mediaType", "mime_type": "mediaType"}
"""Names of members of a file part in other versions, and in ProtoJSON."""


def file_part(name: str, content: bytes, media_type: str | None = None) -> Part:
    """A file as a part; by default, its media type is that of the suffix of its name."""
    guessed = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return {"raw": base64.b64encode(content).decode(), "filename": name, "mediaType": guessed}


def _of_version_1(part: dict[str, Any]) -> dict[str, Any]:
    file = part.get("file")
    flat = {**part, **file} if isinstance(file, dict) else part
    whole = {_FILE.get(key, key): value for key, value in flat.items() if key not in ("kind", "file")}
    return {**whole, "data": _unwrapped(whole["data"], "data")} if "data" in whole else whole


def _unwrapped(value: Any, key: str) -> Any:
    """The object that is alone in another one under this key, as 0.3's HTTP+JSON and Pydantic AI's server write it."""
    return value[key] if isinstance(value, dict) and value.keys() == {key} and isinstance(value[key], dict) else value


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
