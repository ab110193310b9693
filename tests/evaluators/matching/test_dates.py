"""`$date`: which notations are those of a day or an instant, and which cannot be told."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.matching.dates import same_moment

DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 30))
OFFSETS = st.integers(-14 * 4, 14 * 4).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))
INSTANTS = st.datetimes(datetime(1975, 1, 1), datetime(2240, 1, 1), timezones=OFFSETS).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


def notations_of_day(day: date) -> list[str]:
    return [
        day.isoformat(),
        f"{day:%Y%m%d}",
        f"{day:%G-W%V-%u}",
        f"{day.year}/{day.month}/{day.day}",
        f"{day.day} {day:%B %Y}",
        f"{day:%b} {day.day}, {day.year}",
        f"{day:%A, %B} {day.day}th, {day.year}",
        f"{day:%d-%b-%Y}".upper(),
        f"{day}T00:00:00",
        format_datetime(datetime(day.year, day.month, day.day)),
    ]


def notations_of_instant(moment: datetime) -> list[str | float]:
    utc, fraction = moment.astimezone(UTC), f"{moment.microsecond // 1000:03}"
    whole = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return [
        moment.isoformat(),
        utc.isoformat().replace("+00:00", "Z"),
        f"{moment:%Y%m%dT%H%M%S}.{fraction}{moment:%z}",
        f"{utc:%d %B %Y, %I:%M:%S}.{fraction} {utc:%p} UTC",
        f"{moment:%b} {moment.day}, {moment:%Y at %H:%M:%S}.{fraction} GMT{moment:%z}",
        whole / 1000,
        *([whole, str(whole), str(whole / 1000)] if whole > 10**12 else []),
    ]


@given(DAYS)
def test_every_notation_of_a_day_is_that_day_and_no_other(day: date) -> None:
    for notation in notations_of_day(day):
        assert same_moment(day.isoformat(), notation), notation
        assert not same_moment((day + timedelta(days=1)).isoformat(), notation), notation


@given(INSTANTS)
def test_every_notation_of_an_instant_is_that_instant_and_no_other(moment: datetime) -> None:
    for notation in notations_of_instant(moment):
        assert same_moment(moment.isoformat(), notation), notation
        assert not same_moment((moment + timedelta(seconds=1)).isoformat(), notation), notation
    whole = moment.replace(microsecond=0)
    assert same_moment(whole.isoformat(), format_datetime(whole))


@given(DAYS)
def test_numbers_alone_are_read_as_the_suite_says_or_not_at_all(day: date) -> None:
    first, second = f"{day.day:02}/{day.month:02}/{day.year:04}", f"{day.month}.{day.day}.{day.year:04}"
    assert same_moment(day.isoformat(), first, True)
    assert same_moment(day.isoformat(), second, False)
    ambiguous = pytest.raises(ValueError, match="it is ambiguous without dayfirst: true or false")
    for notation in (first, second):
        with ambiguous if day.day <= 12 and day.day != day.month else nullcontext():
            assert same_moment(day.isoformat(), notation)
    assert not same_moment((day + timedelta(days=1)).isoformat(), first, True)


@given(st.text(max_size=120) | st.integers() | st.floats() | st.none() | st.booleans())
def test_anything_is_read_or_refused(value: object) -> None:
    assert same_moment("2026-05-01", value, True) in (True, False)


@pytest.mark.parametrize(
    ("wanted", "given", "zone", "agree"),
    [
        ("2026-05-01", "2026-05-01T00:00:00+02:00", None, True),
        ("2026-05-01", "2026-04-30T22:00:00Z", None, False),
        ("2026-05-01", "2026-04-30T22:00:00Z", "Europe/Berlin", True),
        ("2026-05-01", 1777593600, None, True),
        ("2026-05-01", 1777593600, "Europe/Berlin", False),
        ("2026-05-01", "Fri May 01 2026 00:00:00 GMT+0200 (Central European Summer Time)", None, True),
        ("2026-05-01", "Fri May  1 00:00:00 2026", None, True),
        ("2026-05-01", "Mon, 1 May 2026", None, False),
        ("2026-05-01", "2026-05-01T12:00", None, False),
        ("2026-05-01", "13 am, 1 May 2026", None, False),
        ("2026-05-01T13:00", "1 May 2026 13 pm", None, False),
        ("2026-05-01T14:00:00Z", "2026-05-01T16:00", "Europe/Berlin", True),
        ("2026-05-01T16:00", "2026-05-01T14:00Z", "Europe/Berlin", True),
        ("2026-05-01T16:00", "20260501160000", None, True),
        ("2026-05-01T14:00:00Z", "2026-05-03T14:00", None, False),
        (1777644000, "2026-05-01T14:00:00Z", None, True),
        ("2026-10-25T02:30", "2026-10-25T03:30Z", "Europe/Berlin", False),
        ("2026-05-01", "9999-12-31T23:59:59-14:00", "Europe/Berlin", False),
    ],
)
def test_days_and_instants_in_zones(wanted: object, given: object, zone: str | None, agree: bool) -> None:
    assert same_moment(wanted, given, zone=zone) is agree


@pytest.mark.parametrize(
    ("given", "options", "complaint"),
    [
        ("2026-05-01T14:00", {}, "ambiguous without a zone, such as zone: Europe/Berlin"),
        ("2026-10-25T02:30", {"zone": "Europe/Berlin", "wanted": "2026-10-25T00:30Z"}, "ambiguous"),
        ("x", {"wanted": "05/01/2026"}, "needs dayfirst: true or false; got '05/01/2026'"),
        ("x", {"wanted": "next Friday"}, "takes a day or an instant, such as .*; got 'next Friday'"),
        (
            "x",
            {"zone": "Mars"},
            "zone takes the name of a time zone, such as Europe/Berlin; got 'Mars'",
        ),
        ("x", {"day_first": 1}, "dayfirst takes true or false, got 1"),
    ],
)
def test_what_cannot_be_told_is_an_error(given: object, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        same_moment(**{"wanted": "2026-05-01T14:00:00Z", "given": given, **options})
