"""Compares two answers to the same request, their ids and their cards. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from a2a_tool_capture.spec import is_capture_uri
from tool_call_evaluators.texts import excerpt

from ...protocol.extension_filter import UnreadableError, names_extension, strip, strip_event
from ...protocol.operations import Binding
from ..probe.answer import CUT, GrpcEnd, WireAnswer, WireMessage
from ..probe.interfaces import objects
from ..probe.record import Interface

_ID_KEYS = frozenset({"id", "taskId", "contextId", "messageId", "artifactId", "nextPageToken", "name", "parent"})
"""Members whose strings may be ids. `name` is a resource name in A2A 0.3 over gRPC."""

_RESOURCE = re.compile(r"tasks/[^/]+(/pushNotificationConfigs/[^/]+)?")
_VOLATILE = re.compile(
    r"(?P<id>[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)


class IdPairing:
    """Pairs each id of the direct side with the id at the same place of the other side, and no other.

    `control` pairs two direct sides: a text that is the same on both does not depend on the request, so that it has to
    be the same on every other side.
    """

    def __init__(self, control: IdPairing | None = None) -> None:
        self._other: dict[str, str] = {}
        self._direct: dict[str, str] = {}
        self._stable: set[str] = set()
        self._control = control

    def same(self, direct: str, other: str, key: str = "") -> bool:
        """Whether the strings are equal but for ids and times; `key` is the JSON member that holds them."""
        if direct == other and direct not in self._other:
            self._stable.add(direct)
            return True
        if self._control is not None and self._control.is_stable(direct):
            return False
        if key in _ID_KEYS and (key != "name" or _RESOURCE.fullmatch(direct)):
            return self._paired(direct, other)
        return self._same_text(direct, other) or self._with_known_ids(direct) == other

    def is_stable(self, direct: str) -> bool:
        """Whether both sides had this text; not if it has a time, which may be the same by chance."""
        times = (found.lastgroup == "time" for found in _VOLATILE.finditer(direct))
        return direct in self._stable and not any(times)

    def _paired(self, direct: str, other: str) -> bool:
        return self._other.setdefault(direct, other) == other and self._direct.setdefault(other, direct) == direct

    def _same_text(self, direct: str, other: str) -> bool:
        ours, theirs = _VOLATILE.split(direct)[::3], _VOLATILE.split(other)[::3]
        pairs = list(zip(_VOLATILE.finditer(direct), _VOLATILE.finditer(other), strict=False))
        return ours == theirs and all(
            one.lastgroup == two.lastgroup and (one.lastgroup == "time" or self._paired(one[0], two[0]))
            for one, two in pairs
        )

    def _with_known_ids(self, text: str) -> str:
        for direct in sorted(self._other, key=len, reverse=True):
            text = text.replace(direct, self._other[direct])
        return text


MAX_DELTAS = 10
"""Differences of one answer to report: a fault repeats itself."""
_MAX_TEXT = 300
_MISSING = object()

_LEAST_SPREAD_S = 1.0
_HELD_BACK = 0.1
"""Events that take `_LEAST_SPREAD_S` or more directly, and less than this part of that time proxied, were held back."""

_NOT_END_TO_END = frozenset(
    {
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authenticate"),
        *("proxy-connection", "content-length", "date"),
        *("accept-encoding", "grpc-accept-encoding", "grpc-encoding", "grpc-status", "grpc-message"),
    }
)
"""Of each connection and each moment. The status and its details are compared as values."""

UNASKED = "a2a-eval-proxy removes the extension for clients that did not request it (proxy/docs/transparency.md)"


READ_WHOLE = (
    "a2a-eval-proxy reads a response completely before it removes the extension, so that nothing arrives of one that "
    "is cut off (proxy/docs/profile.md)"
)
PUSH_REFUSED = "a2a-eval-proxy refuses push configurations with --push refuse (proxy/docs/profile.md)"


@dataclass(frozen=True, slots=True)
class Delta:
    """One difference of two answers: `what` names the status, a header, an event or a JSON path.

    `design` says why a2a-eval-proxy makes it, if its documentation announces it.
    """

    what: str
    direct: str
    proxied: str
    design: str = ""


@dataclass(slots=True)
class OperationComparison:
    """The outcome for one operation over one interface. Both are "" and "agent card" for the card itself."""

    interface: str
    operation: str
    deltas: list[Delta] = field(default_factory=list)
    varies: list[str] = field(default_factory=list)
    """Where two direct answers differ, so that a difference there proves nothing."""

    @property
    def faults(self) -> list[Delta]:
        """The differences that are not by design."""
        return [delta for delta in self.deltas if not delta.design]

    @property
    def designed(self) -> list[Delta]:
        return [delta for delta in self.deltas if delta.design]


def refuses_push(answer: WireAnswer) -> bool:
    """Whether a2a-eval-proxy answered that it refuses push configurations."""
    texts = [answer.end.message if answer.end else "", *(str(message.value) for message in answer.messages)]
    return any("(--push refuse)" in text for text in texts)


def name_refusal(delta: Delta) -> Delta:
    """The difference with its reason, if it is what the card says of push notifications."""
    return replace(delta, design=PUSH_REFUSED) if delta.what.endswith("capabilities.pushNotifications") else delta


def compare(direct: WireAnswer, other: WireAnswer, pairing: IdPairing, *, asked: bool = False) -> list[Delta]:
    """Returns the first MAX_DELTAS differences. `asked`: the request activates the extension."""
    found: list[Delta] = []
    if not asked:
        if not names_calls(direct) and names_calls(other):
            found.append(Delta("tool calls", "absent", "present, although the request does not ask for them"))
        elif names_calls(direct) and not names_calls(other):
            direct = _without_extension(direct)
            found.append(Delta("tool calls", "present, although the request does not ask for them", "absent", UNASKED))
    elif names_calls(direct) and not names_calls(other):
        found.append(Delta("tool calls", "present", "absent, although the request asks for them"))
    return [*found, *islice(_deltas(direct, other, pairing), MAX_DELTAS)]


def _deltas(direct: WireAnswer, other: WireAnswer, pairing: IdPairing) -> Iterator[Delta]:
    if direct.outcome != other.outcome:
        yield Delta("status", direct.outcome, other.outcome)
    if not pairing.same(direct.ending, other.ending):
        yield Delta("end", direct.ending or "complete", other.ending or "complete")
    yield from _field_deltas("header", direct.headers, other.headers, pairing)
    yield from _part_deltas(direct, other, pairing)
    ours, theirs = (answer.end or GrpcEnd("") for answer in (direct, other))
    if not pairing.same(ours.message, theirs.message):
        yield Delta("status message", _shown(ours.message), _shown(theirs.message))
    yield from json_deltas("status details", direct.details, other.details, pairing)
    yield from _field_deltas("trailing metadata", ours.trailing, theirs.trailing, pairing)


def _field_deltas(
    kind: str, direct: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]], pairing: IdPairing
) -> Iterator[Delta]:
    for name in dict.fromkeys(name for name, _ in (*direct, *other) if name not in _NOT_END_TO_END):
        ours, theirs = ([value for key, value in fields if key == name] for fields in (direct, other))
        if len(ours) != len(theirs) or not all(map(pairing.same, ours, theirs)):
            yield Delta(f"{kind} {name}", ", ".join(ours) or "(missing)", ", ".join(theirs) or "(missing)")


def _part_deltas(direct: WireAnswer, other: WireAnswer, pairing: IdPairing) -> Iterator[Delta]:
    if direct.streams != other.streams:
        yield Delta("answer", *("a stream" if answer.streams else "one body" for answer in (direct, other)))
        return
    shifted = len(direct.messages) != len(other.messages) or (direct.streams and _summary(direct) != _summary(other))
    if shifted:
        design = (
            READ_WHOLE if direct.ending == other.ending == CUT and not direct.streams and not other.messages else ""
        )
        yield Delta("events" if direct.streams else "body", _summary(direct), _summary(other), design)
    if direct.spread_s >= _LEAST_SPREAD_S and other.spread_s < direct.spread_s * _HELD_BACK and other.streams:
        yield Delta("times of events", *(f"over {answer.spread_s:.1f} s" for answer in (direct, other)))
    for (place, ours), (_, theirs) in zip(direct.places, other.places, strict=False):
        found = list(json_deltas(place, ours.value, theirs.value, pairing))
        found += _field_deltas(f"{place}: field", ours.fields, theirs.fields, pairing)
        yield from found
        if found and shifted:
            return


def json_deltas(path: str, direct: Any, other: Any, pairing: IdPairing, key: str = "") -> Iterator[Delta]:
    """Yields the differences of two JSON values, with their paths."""
    if isinstance(direct, dict) and isinstance(other, dict) and ("error" in direct) == ("error" in other):
        for name in dict.fromkeys((*direct, *other)):
            inner = path + (f"[{name!r}]" if is_capture_uri(name) else f"{'.' if ': ' in path else ': '}{name}")
            yield from json_deltas(inner, direct.get(name, _MISSING), other.get(name, _MISSING), pairing, name)
    elif isinstance(direct, list) and isinstance(other, list):
        if len(direct) != len(other):
            yield Delta(path, f"{len(direct)} entries: {_shown(direct)}", f"{len(other)} entries: {_shown(other)}")
            return
        for number, (ours, theirs) in enumerate(zip(direct, other, strict=True)):
            yield from json_deltas(f"{path}[{number}]", ours, theirs, pairing, key)
    elif isinstance(direct, str) and isinstance(other, str):
        if not pairing.same(direct, other, key):
            yield Delta(path, _shown(direct), _shown(other))
    elif direct != other or isinstance(direct, bool) != isinstance(other, bool):  # 1 is 1.0, but not true
        yield Delta(path, _shown(direct), _shown(other))


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "(missing)"
    return excerpt(json.dumps(value, ensure_ascii=False, default=str), _MAX_TEXT)


def _summary(answer: WireAnswer) -> str:
    kinds = ", ".join(_kind(message) for message in answer.messages)
    return excerpt(f"{len(answer.messages)}: {kinds}" if kinds else "none", _MAX_TEXT)


def _kind(message: WireMessage) -> str:
    """What an event is, for people: its member, and the state of a task."""
    value = message.value
    value = value.get("result", value) if isinstance(value, dict) else value
    if not isinstance(value, dict) or not value:
        return "text"
    name, content = next(iter(value.items())) if "kind" not in value else (value["kind"], value)
    status = content.get("status") if isinstance(content, dict) else None
    state = status.get("state") if isinstance(status, dict) else None
    return f"{name} {state}" if state else str(name)


def names_calls(answer: WireAnswer) -> bool:
    """Whether the answer has anything of the extension."""
    headers = any(is_capture_uri(word.strip()) for _, value in answer.headers for word in value.split(","))
    return headers or any(names_extension(json.dumps(message.value).encode()) for message in answer.messages)


def _without_extension(answer: WireAnswer) -> WireAnswer:
    """As the proxy would send it to a client that did not ask."""
    withheld: set[str] = set()
    kept = []
    for message in answer.messages:
        try:
            left = strip_event(message.data, None, withheld) if answer.streams else strip(message.data, None)
        except UnreadableError:
            kept.append(message)
            continue
        if left is not None:
            kept.append(replace(message, data=left))
    headers = [header for header in answer.headers if not is_capture_uri(header[1].strip())]
    return replace(answer, headers=headers, messages=kept)


_ADDRESSES = ("supportedInterfaces", "additionalInterfaces", "url", "preferredTransport")
_RECOMPUTED = frozenset({"etag", "last-modified", "cache-control", "vary", "cdn-cache-control", "surrogate-control"})
_SIGNATURES = (
    "a2a-eval-proxy removes the signatures of a card that it changes, such as its interface URLs, as they would not "
    "verify (proxy/docs/transparency.md)"
)
_CACHING = "a2a-eval-proxy sets the caching headers of a card that it rewrites (proxy/docs/transparency.md)"


def interface_pairs(direct: list[Interface], proxied: list[Interface]) -> list[tuple[Interface, Interface | None]]:
    """Pairs each interface of the direct card with that of the proxied card: the same binding, version and tenant."""
    left = list(proxied)
    pairs: list[tuple[Interface, Interface | None]] = []
    for interface in direct:
        match = next((other for other in left if _key(other) == _key(interface)), None)
        if match is not None:
            left.remove(match)
        pairs.append((interface, match))
    return pairs


def interface_deltas(direct: list[Interface], proxied: list[Interface]) -> list[tuple[str, Delta]]:
    """Returns the differences between the interfaces of two cards, each with the name of its interface.

    Their order counts: clients use the first one that they can (A2A 1.0, section 8.3.2).
    """
    found = []
    for interface, other in interface_pairs(direct, proxied):
        if other is None:
            hint = (
                "start a2a-eval-proxy with --grpc, and give one of several agents `hosts`"
                if interface.binding is Binding.GRPC
                else "clients cannot use it"
            )
            delta = Delta("interface", interface.url, f"(missing in the card of the proxy: {hint})")
            found.append((str(interface), delta))
    matched = {id(other) for _, other in interface_pairs(direct, proxied)}
    more = (other for other in proxied if id(other) not in matched)
    found += [(str(other), Delta("interface", "(missing)", other.url)) for other in more]
    if not found and list(map(_key, direct)) != list(map(_key, proxied)):
        found.append(("", Delta("order of interfaces", *(", ".join(map(str, each)) for each in (direct, proxied)))))
    return found


def _key(interface: Interface) -> tuple[Binding, str, str]:
    return interface.binding, interface.version, interface.tenant


def without_addresses(answer: WireAnswer, binding: Binding | None) -> WireAnswer:
    """The answer with a card, without interfaces, which are compared one by one."""
    return replace(answer, messages=[_bare_message(message, binding) for message in answer.messages])


def _bare_message(message: WireMessage, binding: Binding | None) -> WireMessage:
    card = message.value
    if isinstance(card, dict) and binding is Binding.JSONRPC:
        card = card.get("result")
    if not isinstance(card, dict):
        return message
    bare = {name: value for name, value in card.items() if name not in _ADDRESSES}
    whole = {**message.value, "result": bare} if binding is Binding.JSONRPC else bare
    return replace(message, data=json.dumps(whole).encode())


def unsigned(card: Any) -> Any:
    """Returns the card without its signatures: what they would cover."""
    return {name: value for name, value in card.items() if name != "signatures"} if isinstance(card, dict) else card


def with_design(deltas: list[Delta], changed: bool) -> Iterator[Delta]:
    """Names the differences of a card that the proxy makes by design; `changed`: it differs in more than signatures."""
    for delta in deltas:
        design = ""
        if changed and delta.what.endswith("signatures") and delta.proxied == "(missing)":
            design = _SIGNATURES
        elif changed and delta.what.removeprefix("header ") in _RECOMPUTED:
            design = _CACHING
        yield Delta(delta.what, delta.direct, delta.proxied, design)


def signatures_kept(direct: Any, proxied: Any, changed: bool) -> list[Delta]:
    """The difference where a proxy changes a signed card and keeps the signatures."""
    signed = changed and isinstance(proxied, dict) and objects(proxied.get("signatures"))
    if not signed or not isinstance(direct, dict):
        return []
    return [Delta("signatures", "present", "present, although they cannot verify: the card changed")]
