"""Reads the notations in which models and tools write a day or an instant, and compares two of them.

A notation may have several readings: `05/01/2026`, or a time without a zone. Two notations agree only if all their
readings do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import regex

MAX_LENGTH = 100
"""Longer strings are no notation of a date."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_SECONDS, _LARGEST_MILLISECONDS = 10**11, 10**14
_WIDEST_OFFSET = timedelta(hours=14)

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_YEAR, _DAY, _NAME = r"(?P<year>\d{4})", r"(?P<day>\d\d?)(?:st|nd|rd|th)?", r"(?P<name>[a-z]{3,9})\.?"
_CLOCK = r"(?P<hour>\d\d?)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
_TIME = rf"(?:t|,? (?:at )?){_CLOCK}(?: ?(?P<half>[ap])\.?m\.?)?"
_ZONE = r"(?: ?(?P<zone>(?:z|utc|gmt)?(?:(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?))"
_FORMATS = tuple(
    regex.compile(rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)})[a-z]*,? )?{form}(?: \([a-z ]*\))?")
    for form in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?)(?:{_TIME}{_ZONE})?",
        rf"(?P<one>\d\d?)(?P<mark>[-/.])(?P<other>\d\d?)(?P=mark){_YEAR}(?:{_TIME}{_ZONE})?",
        rf"{_DAY}[ .-]{{1,2}}(?:of )?{_NAME},?[ -]{_YEAR}(?:{_TIME}{_ZONE})?",
        rf"{_NAME} {_DAY},? {_YEAR}(?:{_TIME}{_ZONE})?",
        rf"{_NAME} {_DAY}{_TIME} {_YEAR}",
    )
)
"""`2026-05-01`, `05/01/2026`, `1 May 2026`, `May 1, 2026`, each with or without a time; and that of C's `asctime`."""


def same_moment(wanted: Any, given: Any, day_first: bool | None = None, zone: str | None = None) -> bool:
    """Whether `given` is a notation of the day or instant of which `wanted` is one.

    A day and the instant at which it begins agree: as it is written there, or in the time zone `zone`. `day_first` says
    how `05/01/2026` is read, and `zone` (IANA) where times without a zone are. Raises ValueError if `wanted` is no
    date or has several readings, and where only some readings of `given` agree.
    """
    place = None if zone is None else _time_zone(zone)
    expected = _readings(wanted, day_first)
    if len(expected) != 1:
        takes = (
            "needs dayfirst: true or false" if expected else "takes a day or an instant, such as 2026-05-01T14:00:00Z"
        )
        raise ValueError(f"{takes}; got {wanted!r}")
    readings = _readings(given, day_first)
    verdicts = {verdict for one in readings for verdict in _agreeing(expected[0], one, place)}
    if len(verdicts) > 1:
        needed = "dayfirst: true or false" if len(readings) > 1 else "a zone, such as zone: Europe/Berlin"
        raise ValueError(f"cannot tell whether {given!r} is {wanted}: it is ambiguous without {needed}")
    return verdicts == {True}


def _agreeing(one: date, other: date, zone: tzinfo | None) -> Iterator[bool]:
    """Whether the moments are the same, for each way of reading times without a zone."""
    if not isinstance(one, datetime) or not isinstance(other, datetime):
        yield _day(one, zone) == _day(other, zone)
    elif (one.tzinfo is None) == (other.tzinfo is None):
        yield one == other
    else:
        local, instant = (one, other) if one.tzinfo is None else (other, one)
        if zone is not None:
            for fold in (0, 1):  # clocks that are put back show a time twice
                yield local.replace(tzinfo=zone, fold=fold).astimezone(UTC) == instant
        else:
            yield False
            if abs(local.replace(tzinfo=UTC) - instant) <= _WIDEST_OFFSET:
                yield True


def _day(moment: date, zone: tzinfo | None) -> date | None:
    """The day itself, or that which begins at the instant; None for another instant."""
    if not isinstance(moment, datetime):
        return moment
    local = moment.astimezone(zone) if zone is not None and moment.tzinfo is not None else moment
    return None if local.time().replace(tzinfo=None) != datetime.min.time() else local.date()


@lru_cache(maxsize=128)
def _time_zone(name: Any) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, TypeError, ValueError):
        raise ValueError(f"zone takes the name of a time zone, such as Europe/Berlin; got {name!r}") from None


def _readings(value: Any, day_first: bool | None) -> list[date]:
    """The days and instants (`datetime`, with a zone if it is known) that `value` may be a notation of."""
    if not isinstance(day_first, bool | None):
        raise ValueError(f"dayfirst takes true or false, got {day_first!r}")
    try:
        if isinstance(value, str):
            return _in_text(value.strip(), day_first) if len(value) <= MAX_LENGTH else []
        return _of_epoch(value) if isinstance(value, int | float) and not isinstance(value, bool) else []
    except (ValueError, OverflowError):
        return []


def _of_epoch(number: float) -> list[date]:
    """Of seconds or milliseconds since 1970."""
    if abs(number) < _LARGEST_SECONDS:
        return [_EPOCH + timedelta(seconds=number)]
    return [_EPOCH + timedelta(milliseconds=number)] if abs(number) < _LARGEST_MILLISECONDS else []


def _in_text(text: str, day_first: bool | None) -> list[date]:
    if regex.fullmatch(r"-?\d{9,13}(?:\.\d+)?", text):
        return _of_epoch(float(text) if "." in text else int(text))
    if regex.fullmatch(r"\d{14}", text):
        text = f"{text[:8]}T{text[8:]}"
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return [read(text)]
        except ValueError:
            continue
    words = " ".join(text.lower().split())
    return next((_of_match(found, day_first) for form in _FORMATS if (found := form.fullmatch(words))), [])


def _of_match(found: regex.Match[str], day_first: bool | None) -> list[date]:
    parts = found.groupdict()
    if parts.get("name"):
        months = [number for number, name in enumerate(_MONTHS, 1) if parts["name"] in (name, name[:3], name[:4])]
        days = [(months[0], int(parts["day"]))] if months else []
    elif parts.get("one"):
        pair = int(parts["one"]), int(parts["other"])
        days = [pair[::-1] if day_first else pair] if day_first is not None else list({pair, pair[::-1]})
    else:
        days = [(int(parts["month"]), int(parts["day"]))]
    out = []
    for month, day in days:
        try:
            moment = _at_time(date(int(parts["year"]), month, day), parts)
        except ValueError:
            continue
        if parts["weekday"] in (None, _WEEKDAYS[moment.weekday()]):
            out.append(moment)
    return out


def _at_time(day: date, parts: dict[str, str | None]) -> date:
    """Raises ValueError for no time of a day."""
    if (hour := parts.get("hour")) is None:
        return day
    half, sign, number = parts["half"], parts.get("sign"), int(hour)
    if half is not None:
        if not 1 <= number <= 12:
            raise ValueError(hour)
        number = number % 12 + 12 * (half == "p")
    clock = f"{number:02}:{parts['minute'] or '00'}:{parts['second'] or '00'}.{parts['fraction'] or '0'}"
    offset = f"{sign}{parts['hours']}:{parts['minutes'] or '00'}" if sign else "+00:00" if parts.get("zone") else ""
    return datetime.fromisoformat(f"{day}T{clock}{offset}")
