"""What counts as the same tool call. Pure.

| who asks | of which calls | the same call |
| --- | --- | --- |
| `merge` | a task's reports | `same_call`; without ids: `new_calls`, `is_cumulative` |
| `reconciliation` | of the protocol and of traces | id and name, else `signature`, else `agreement`, one with one |
| `spans.observations` | observed in one trace | id and tool; one span above the other; name, arguments, time |
| `matching` of the evaluators | actual and expected | name, arguments by the matcher, the expected outcome |
| `dialects` | parts of one task | id and name, unless a finished id comes again with other arguments |
| `recording` | an agent's own reports | id and tool |
| `tool_efficiency` of the evaluators | of one turn | name, arguments by the matcher |
| `matching.explain` (`diff_calls`) | of two runs | name, arguments by a matcher, by default equal ones; any outcome |

Everywhere values are equal as `canonical.value_key` says: numbers by value, true is not 1. An id names a call within
one response of a model, no further: servers number them (`call_0`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .canonical import canonical, value_key
from .models import ToolCall


class NamedArguments(Protocol):
    """A call, whoever reports it."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> Mapping[str, Any] | None: ...


def signature(call: NamedArguments) -> tuple[str, Hashable]:
    """Key of a call by name and arguments: equal for the same call made twice. All unknown arguments are equal."""
    return call.name, value_key(call.arguments)


def agreement(one: ToolCall, other: ToolCall) -> int:
    """How many of their arguments agree, where both calls have them; 0 if any does not, and if they share none.

    Inner objects agree in the same way. Calls that differ only in `default_arguments` agree, too.
    """
    if one.arguments is None or other.arguments is None:
        return 0
    if value_key(one.arguments_given) == value_key(other.arguments_given):
        return 1 + len(one.arguments)
    return _agreeing(one.arguments, other.arguments) if one.arguments and other.arguments else 0


def _agreeing(one: Any, other: Any) -> int:
    """How many values agree in two JSON values; 0 if any does not."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        inner = [_agreeing(one[key], other[key]) for key in one.keys() & other.keys()]
        inner += [1] if not one or not other else []
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        inner = [1, *map(_agreeing, one, other)]
    else:
        return int(value_key(one) == value_key(other))
    return sum(inner) if all(inner) else 0


def same_call(earlier: ToolCall, later: ToolCall) -> bool:
    """Whether `later` reports `earlier` again, both with the same non-empty id and name.

    Where the arguments are equal (or unknown, or `later` leaves them out): unless it ends in another way than `earlier`
    did. Where they are not: only if `earlier` is unfinished, and `later` is its end or has the same arguments further
    on.
    """
    if not earlier.id or earlier.id != later.id or earlier.name != later.name:
        return False
    if _same_arguments(earlier.arguments, later.arguments):
        ends_alike = later.result in (None, earlier.result) and later.error in (None, earlier.error)
        return not finished(earlier) or ends_alike
    if not later.arguments:
        return _agree(earlier.result, later.result) and _agree(earlier.error, later.error)
    return not finished(earlier) and (finished(later) or _continues(earlier.arguments or {}, later.arguments))


def contradicts(earlier: ToolCall, later: ToolCall) -> bool:
    """Whether both have arguments, and those of `later` are neither the same nor the same further on."""
    return bool(
        earlier.arguments
        and later.arguments
        and not _same_arguments(earlier.arguments, later.arguments)
        and not _continues(earlier.arguments, later.arguments)
    )


def finished(call: ToolCall) -> bool:
    """Whether it has a result or an error."""
    return call.result is not None or call.error is not None


def filled(call: ToolCall, earlier: ToolCall) -> ToolCall:
    """`call`, with what it leaves out taken from its earlier appearance (announced first, result later)."""
    return replace(
        call,
        arguments=call.arguments or earlier.arguments,
        result=call.result if call.result is not None else earlier.result,
        error=call.error if call.error is not None else earlier.error,
        started_at=call.started_at or earlier.started_at,
        ended_at=call.ended_at or earlier.ended_at,
        first_seen_at=call.first_seen_at if earlier.first_seen_at is None else earlier.first_seen_at,
        result_seen_at=call.result_seen_at if earlier.result_seen_at is None else earlier.result_seen_at,
    )


def is_cumulative(earlier: Sequence[ToolCall], new: Sequence[ToolCall]) -> bool:
    """Whether `new` repeats all of `earlier` at its beginning, perhaps with results filled in."""
    return len(new) >= len(earlier) > 0 and all(map(_repeats, earlier, new))


def unite(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Each call once, at its first place, as it was last reported."""
    united = KnownCalls()
    for call in calls:
        position = united.find(call)
        if position is None:
            united.calls.append(call)
        else:
            united.replace(position, call)
    return united.calls


def new_calls(calls: Iterable[ToolCall], earlier: Sequence[ToolCall]) -> list[ToolCall]:
    """Those of `calls` (each there once) that are not in `earlier`, where each call accounts for one call at most.

    Without ids the same name and arguments is the same call; arguments that are not known (None) are any.
    """
    known_calls = KnownCalls([*earlier])
    nameless = Counter(signature(call) for call in earlier if not call.id)
    used: set[int] = set()
    new = []
    for call in calls:
        place = known_calls.find(call)
        if place is not None and place not in used and not contradicts(earlier[place], call):
            used.add(place)
            continue
        keys: Iterable[tuple[str, Hashable]] = ()
        if not call.id and call.arguments is None:
            keys = [key for key in nameless if key[0] == call.name]
        elif not call.id:
            keys = (signature(call), (call.name, None))
        known = next((key for key in keys if nameless[key] > 0), None)
        if known is None:
            new.append(call)
        else:
            nameless[known] -= 1
    return new


def missing_calls(calls: Sequence[ToolCall], later: Sequence[ToolCall]) -> list[ToolCall]:
    """Those of `calls` that a later report does not have. Of calls that share an id it needs to have as many."""
    missing = new_calls(calls, later)
    if not missing:
        return []
    known = KnownCalls([*later])
    before, after = (Counter((call.id, call.name) for call in those) for those in (calls, later))
    return [
        call
        for call in missing
        if not call.id or after[call.id, call.name] < before[call.id, call.name] or known.find(call) is None
    ]


@dataclass(slots=True, eq=False)
class KnownCalls:
    """Calls in which one that is reported again is found. That takes the same time however often an id is used."""

    calls: list[ToolCall] = field(default_factory=list)
    _indexed: int = 0
    """How many of them can be found so far: most lists are never searched."""
    _positions: dict[Hashable, int] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def find(self, call: ToolCall) -> int | None:
        """The position of the call that `call` reports again; None where it is another one, or has no id."""
        for position in range(self._indexed, len(self.calls)):
            self._put(self.calls[position], position)
        self._indexed = len(self.calls)
        if (call.id, call.name) not in self._positions:
            return None
        places = (self._positions.get(key) for key in _keys(call))
        return next((place for place in places if place is not None and same_call(self.calls[place], call)), None)

    def other_name(self, call: ToolCall) -> str | None:
        """The name that the first call with the id of `call`, which was looked for, has, if it is another one."""
        name = self._names.get(call.id, call.name)
        return None if name == call.name else name

    def replace(self, position: int, call: ToolCall) -> ToolCall:
        """Put `call` in the place of an earlier report, and complete it from that; returns the earlier one."""
        earlier = self.calls[position]
        self.calls[position] = later = filled(call, earlier)
        self._put(later, position)
        return earlier

    def _put(self, call: ToolCall, position: int) -> None:
        if call.id:
            self._names.setdefault(call.id, call.name)
            *exact, loose = _keys(call)
            self._positions |= dict.fromkeys(exact, position)
            self._positions[loose] = max(position, self._positions.get(loose, 0))


def _keys(call: ToolCall) -> tuple[Hashable, ...]:
    """What calls have in common that may be the same, the most telling first."""
    loose, arguments = (call.id, call.name), value_key(call.arguments)
    return (*loose, arguments, call.result, call.error), (*loose, arguments), loose


def _repeats(earlier: ToolCall, later: ToolCall) -> bool:
    if earlier.id or later.id:
        return same_call(earlier, later)
    return (
        earlier.name == later.name
        and _agree(earlier.result, later.result)
        and _agree(earlier.error, later.error)
        and _same_arguments(earlier.arguments, later.arguments)
    )


def _agree(earlier: str | None, later: str | None) -> bool:
    return earlier is None or later is None or earlier == later


def _same_arguments(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> bool:
    if a is None or b is None:
        return True
    return a == b and (repr(a) == repr(b) or canonical(a) == canonical(b))  # True equals 1 in Python only


def _continues(earlier: Mapping[str, Any], later: Mapping[str, Any] | None) -> bool:
    """Whether `later` may be `earlier` when more of the arguments had been written."""
    return later is not None and all(
        key in later
        and (
            later[key] == value
            or (isinstance(value, str) and isinstance(later[key], str) and later[key].startswith(value))
        )
        for key, value in earlier.items()
    )
