"""The webhooks that a request sets, in whatever spelling an agent may read them. Pure.

Agents differ in how they read JSON: in encodings, in fields that are there twice, in upper case. What not all of them
read alike is an error here, so that a policy about webhooks holds for every agent.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from a2a_tool_capture.json_limits import has_too_many_values

from .operations import decode_json

_SPACE = re.compile(r"[ \t\n\r]*")
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Control characters in strings are not JSON, but some clients accept them.
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_int=str, strict=False).scan_once  # type: ignore[attr-defined]  # typeshed omits it
_MAX_DEPTH = 3  # configurations within a configuration: `config.pushNotificationConfig` in some versions
_MAY_BE_JSON = re.compile(rb"[^!-~]*(?:[{\[/]|\Z)")
"""The beginning of an object or an array, in any encoding, or of a comment before it."""
_ESCAPED_LETTER = re.compile(r"\\u0(?:0[4-7]|13[01])|[ıİ]")
"""A letter of ASCII as an escape, or one that some readers take for an `i`."""
_NO_LETTER = re.compile(r"[^a-z]+")
_CHARSET = re.compile(rb"charset\s*=\s*\"?([^\s\";,]*)")
_LIKE_ASCII = frozenset({b"utf-8", b"utf8", b"us-ascii", b"iso-8859-1"})
_SPELLINGS = frozenset(
    {
        "method",
        "params",
        "configuration",
        "taskPushNotificationConfig",
        "task_push_notification_config",
        "pushNotificationConfig",
        "push_notification_config",
        "pushNotification",
        "push_notification",
        "config",
        "id",
        "url",
    }
)
"""The fields that lead to a webhook, in 1.0 and 0.3, in the spellings of JSON and of protobuf."""


class NewWebhook(NamedTuple):
    url: str
    config_id: str  # the id that the client gives the configuration; "" for none


class WebhookPlace(NamedTuple):
    """Where a request sets a webhook."""

    start: int
    end: int  # the position of the URL's JSON string, with its quotes
    webhook: NewWebhook


class UnclearWebhookError(ValueError):
    """A request may set a webhook, and not all agents read it alike; the message says why."""


def may_be_json(beginning: bytes) -> bool:
    """Whether a body with this beginning may be a request of A2A, in any encoding; a cheap test that is never wrongly
    False."""
    return _MAY_BE_JSON.match(beginning) is not None


def webhooks_in(body: bytes, *, is_config: bool = False, content_type: bytes = b"") -> list[WebhookPlace]:
    """The webhooks that a request sets, over JSON-RPC or HTTP+JSON. Raises UnclearWebhookError.

    `is_config`: its path says that it is about the webhooks of a task. `body` is without its content coding.
    """
    if not body or _MAY_BE_JSON.match(body) is None:
        return []
    if not _LIKE_ASCII.issuperset(_CHARSET.findall(content_type.lower())):
        raise UnclearWebhookError("its media type names another charset than UTF-8")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise UnclearWebhookError("it is not in UTF-8") from None
    if "\0" in text or body.startswith(codecs.BOM_UTF8):
        raise UnclearWebhookError("it is not in UTF-8 without a byte-order mark")
    has_escapes = ("\\u0" in text or not text.isascii()) and _ESCAPED_LETTER.search(text)
    if not (is_config or "otification" in text.lower() or has_escapes):
        return []
    if has_too_many_values(body):
        raise UnclearWebhookError("it has too many values to be read")
    found: list[WebhookPlace] = []
    try:
        at = _after_space(text, 0)
        end = _read_config(text, at, found, _MAX_DEPTH)[0] if is_config else _read_request(text, at, found)
        if _after_space(text, end) < len(text):
            raise ValueError("something follows the JSON object")
    except UnclearWebhookError:
        raise
    except (ValueError, IndexError, StopIteration):
        raise UnclearWebhookError("it is not one JSON object as all agents read it") from None
    return found


def _letters(key: str) -> str:
    """What is the same for readers who ignore case, or how the words of a name are joined."""
    return _NO_LETTER.sub("", key.casefold().replace("ı", "i"))


_Members = dict[str, tuple[int, int, Any]]
"""Members of an object, by their keys: start, end and content of the value."""
_NONE = 0, 0, None


def _starts(text: str, members: _Members) -> list[int]:
    """Where the values begin that are not null."""
    return [start for start, end, _ in members.values() if end and text[start] != "n"]


def _members(text: str, at: int, wanted: Callable[[str], bool]) -> tuple[_Members, int]:
    """The members of the object at `at` whose `_letters` are wanted, and its end."""
    if text[at] != "{":
        raise UnclearWebhookError("it has something else in place of an object")
    found: _Members = {}
    at = _after_space(text, at + 1)
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError(f"expected a key at {at}")
        key, at = _scan(text, at)
        at = _after(":", text, at)
        value, end = _value(text, at)
        if wanted(_letters(key)):
            if key in found or key not in _SPELLINGS:
                problem = "is there twice" if key in found else "is no name of A2A, and some readers ignore that"
                raise UnclearWebhookError(f"its field {key[:64]!r} {problem}")
            found[key] = at, end, value
        at = _after_space(text, end)
        if text[at] != "}":
            at = _after(",", text, at)
    return found, at + 1


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere


def _after(sign: str, text: str, at: int) -> int:
    """The position of what follows this sign, with white space around it."""
    at = _after_space(text, at)
    if text[at] != sign:
        raise ValueError(f"expected {sign!r} at {at}")
    return _after_space(text, at + 1)


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value at `at` and its end; None for one that nests deeper than Python reads."""
    try:
        return _scan(text, at)
    except RecursionError:
        depth = 0
        for token in _STRUCTURE.finditer(text, at):
            depth += (token[0] in "{[") - (token[0] in "}]")
            if depth == 0:
                return None, token.end()
        raise ValueError(f"the value at {at} does not end") from None


def _read_request(text: str, at: int, found: list[WebhookPlace]) -> int:
    """Read a JSON-RPC request, or the message of HTTP+JSON; returns its end."""
    members, end = _members(text, at, {"method", "params", "configuration"}.__contains__)
    _, _, method = members.pop("method", _NONE)
    if params := _starts(text, {"params": members.pop("params", _NONE)}):
        if isinstance(method, str) and "pushnotification" in _letters(method):
            _read_config(text, params[0], found, _MAX_DEPTH)
        _read_configuration(text, _members(text, params[0], "configuration".__eq__)[0], found)
    _read_configuration(text, members, found)
    return end


def _read_configuration(text: str, configuration: _Members, found: list[WebhookPlace]) -> None:
    for start in _starts(text, configuration):
        for at in _starts(text, _members(text, start, lambda name: "pushnotification" in name)[0]):
            if not _read_config(text, at, found, _MAX_DEPTH)[1]:
                raise UnclearWebhookError("its configuration of a webhook has no URL")


def _read_config(text: str, at: int, found: list[WebhookPlace], depth: int) -> tuple[int, bool]:
    """Read the configuration at `at`; returns its end, and whether it names a URL."""
    members, end = _members(text, at, _leads_to_url)
    _, _, config_id = members.pop("id", _NONE)
    start, stop, url = members.pop("url", _NONE)
    if not isinstance(url, str | None):
        raise UnclearWebhookError("the URL of its webhook is no text")
    if url:
        found.append(WebhookPlace(start, stop, NewWebhook(url, config_id if isinstance(config_id, str) else "")))
    nested = _starts(text, members)
    if nested and not depth:
        raise UnclearWebhookError("its configurations of webhooks are nested")
    named = [_read_config(text, at, found, depth - 1)[1] for at in nested]
    return end, stop > 0 or any(named)


def _leads_to_url(name: str) -> bool:
    return name in ("id", "url", "config") or ("pushnotification" in name and not name.endswith("id"))


def replaced(text: str, places: Sequence[WebhookPlace], urls: Sequence[str]) -> str:
    """`text` with these URLs at these places."""
    kept: list[str] = []
    position = 0
    for place, url in sorted(zip(places, urls, strict=True)):
        kept += (text[position : place.start], json.dumps(url))
        position = place.end
    return "".join([*kept, text[position:]])


def deleted_config(rest_method: str, path: str, body: bytes | None) -> str | None:
    """The id of the configuration that a request over JSON-RPC or HTTP+JSON deletes; None for any other request.

    `body` is without its content coding.
    """
    if rest_method == "DELETE":
        match = re.search(r"/pushNotificationConfigs/([^/]+)$", path)
        return match[1] if match else None
    try:
        payload = decode_json(body or b"null")
    except ValueError:
        return None
    return deleted_by(payload.get("method"), payload.get("params")) if isinstance(payload, dict) else None


def deleted_by(method: Any, params: Any) -> str | None:
    """As `deleted_config`, for a call of this method, whose name may be part of a path."""
    if not isinstance(method, str) or "delete" not in method.lower() or not isinstance(params, dict):
        return None
    for key in ("pushNotificationConfigId", "push_notification_config_id", "name", "id"):
        value = params.get(key)
        if isinstance(value, str):
            return value.rpartition("/")[2]
    return None
