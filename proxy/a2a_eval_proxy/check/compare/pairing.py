"""Ids that an agent makes: direct and proxied answers have different ones, but at the same places. Pure."""

from __future__ import annotations

import re

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
