"""Reads the notations in which models and tools write a day or an instant, and compares two of them.

A notation may have several readings: `05/01/2026`, or a time without a zone. Two notations agree only if all their
readings do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import regex

MAX_LENGTH = 100
"""Longer strings are no notation of a date."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDEST_OFFSET = timedelta(hours=14)

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY, _NAME = r"(?P<day>\d\d?)(?:st|nd|rd|th)?", r"(?P<name>[a-z]{3,9})\.?"
_CLOCK = r"(?P<hour>\d\d?)(?P<rest>(?::\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)(?: ?(?P<half>[ap])\.?m\.?)?"
_ZONE = r"(?: ?(?P<zone>(?:z|utc|gmt)?(?P<offset>[+-]\d\d(?::?\d\d)?)?))"
_AT = rf"(?:(?:t|,? (?:at )?){_CLOCK}{_ZONE})?"
_FORMATS = [
    regex.compile(rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)})[a-z]*,? )?{form}(?: \([a-z ]*\))?")
    for form in (
        rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?){_AT}",
        rf"(?P<one>\d\d?)(?P<mark>[-/.])(?P<other>\d\d?)(?P=mark)(?P<year>\d{{4}}){_AT}",
        rf"{_DAY}[ .-]{{1,2}}(?:of )?{_NAME},?[ -](?P<year>\d{{4}}){_AT}",
        rf"{_NAME} {_DAY},? (?P<year>\d{{4}}){_AT}",
        rf"{_NAME} {_DAY} {_CLOCK}{_ZONE} (?P<year>\d{{4}})",
    )
]
"""`2026-05-01`, `05/01/2026`, `1 May 2026`, `May 1, 2026`, each with or without a time; and that of C's `asctime`."""


def same_moment(wanted: Any, given: Any, day_first: bool | None = None, zone: str | None = None) -> bool:
    """Whether `given` is a notation of the day or instant of which `wanted` is one.

    A day and the instant at which it begins agree: as it is written there, or in the time zone `zone`. `day_first` says
    how `05/01/2026` is read, and `zone` (IANA) where times without a zone are. Raises ValueError if `wanted` is no
    date or has several readings, and where only some readings of `given` agree.
    """
    if not isinstance(day_first, bool | None):
        raise ValueError(f"dayfirst takes true or false, got {day_first!r}")
    try:
        place = None if zone is None else ZoneInfo(zone)
    except (LookupError, OSError, TypeError, ValueError):
        raise ValueError(f"zone takes the name of a time zone, such as Europe/Berlin; got {zone!r}") from None
    expected, readings = _readings(wanted, day_first), _readings(given, day_first)
    if len(expected) != 1:
        takes = (
            "needs dayfirst: true or false" if expected else "takes a day or an instant, such as 2026-05-01T14:00:00Z"
        )
        raise ValueError(f"{takes}; got {wanted!r}")
    try:
        verdicts = {verdict for one in readings for verdict in _agreeing(expected[0], one, place)}
    except OverflowError:  # there is no such day in that zone
        return False
    if len(verdicts) > 1:
        needed = "dayfirst: true or false" if len(readings) > 1 else "a zone, such as zone: Europe/Berlin"
        raise ValueError(f"cannot tell whether {given!r} is {wanted}: it is ambiguous without {needed}")
    return verdicts == {True}


def _agreeing(one: date, other: date, zone: ZoneInfo | None) -> Iterator[bool]:
    """Whether the moments are the same, for each way of reading times without a zone."""
    if not isinstance(one, datetime) or not isinstance(other, datetime):
        yield _day(one, zone) == _day(other, zone)
    elif (one.tzinfo is None) == (other.tzinfo is None):
        yield one == other
    else:
        local, instant = (one, other) if one.tzinfo is None else (other, one)
        if zone is None:
            yield from (False, True) if abs(local.replace(tzinfo=UTC) - instant) <= _WIDEST_OFFSET else (False,)
        for fold in (0, 1) if zone else ():  # clocks that are put back show a time twice
            yield local.replace(tzinfo=zone, fold=fold).astimezone(UTC) == instant


def _day(moment: date, zone: ZoneInfo | None) -> date | None:
    """The day itself, or that which begins at the instant; None for another instant."""
    if not isinstance(moment, datetime):
        return moment
    local = moment.astimezone(zone) if zone and moment.tzinfo else moment
    return local.date() if local.time() == time() else None


def _readings(value: Any, day_first: bool | None) -> list[date]:
    """The days and instants (`datetime`, with a zone if it is known) that `value` may be a notation of."""
    if isinstance(value, str) and len(value) <= MAX_LENGTH:
        text = " ".join(value.split())
        if not regex.fullmatch(r"-?\d{9,13}(?:\.\d+)?", text):
            words = regex.sub(r"^(\d{8})(\d{6})$", r"\1T\2", text)
            matches = (found.groupdict() for form in _FORMATS if (found := form.fullmatch(words.lower())))
            return _iso(words) or next((_of_parts(parts, day_first) for parts in matches), [])
        value = float(text)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 10**14:
        return []
    try:
        return [_EPOCH + timedelta(seconds=value if abs(value) < 10**11 else value / 1000)]
    except OverflowError:
        return []


def _iso(text: str) -> list[date]:
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return [read(text)]
        except ValueError:
            continue
    return []


def _of_parts(parts: dict[str, Any], day_first: bool | None) -> list[date]:
    if parts.get("name"):
        months = [number for number, name in enumerate(_MONTHS, 1) if parts["name"] in (name, name[:3], name[:4])]
        days = {(month, parts["day"]) for month in months}
    elif parts.get("one"):
        first, second = parts["one"], parts["other"]
        days = {True: {(second, first)}, False: {(first, second)}, None: {(first, second), (second, first)}}[day_first]
    else:
        days = {(parts["month"], parts["day"])}
    dates = {f"{parts['year']}-{int(month):02}-{int(day):02}{_clock(parts)}" for month, day in days}
    read = [moment for text in dates for moment in _iso(text)]
    return [moment for moment in read if parts["weekday"] in (None, _WEEKDAYS[moment.weekday()])]


def _clock(parts: dict[str, Any]) -> str:
    """The time of day in ISO 8601; empty without one."""
    if parts["hour"] is None:
        return ""
    hour = int(parts["hour"])
    if parts["half"]:
        hour = hour % 12 + 12 * (parts["half"] == "p") if 1 <= hour <= 12 else 99
    return f"T{hour:02}{parts['rest']}{parts['offset'] or ('Z' if parts['zone'] else '')}"
