"""Where a store is, and which parts of its URL may be shown."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.settings.store_url import check_postgres, is_postgres, masked_url


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("turns.db", "turns.db"),
        ("/var/lib/turns.db", "/var/lib/turns.db"),
        ("sqlite:///var/turns?.db", "sqlite:///var/turns?.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host:5433/db", "postgresql://me@host:5433/db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgres://me:secret@host/db", "postgres://me:***@host/db"),
        ("postgresql://me:se%40c:r@et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@/db?host=/run/pg", "postgresql://:***@/db?host=/run/pg"),
        ("postgresql:///db?password=secret&sslmode=require", "postgresql:///db?password=***&sslmode=require"),
        ("postgresql:///db?sslpassword=secret", "postgresql:///db?sslpassword=***"),
        ("postgresql://me:secret@[::1/db", "postgresql://***"),
        ("postgresql://me:se/cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se#cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se?cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:secret@one:1,two:2/db", "postgresql://me:***@one:1,two:2/db"),
        ("postgresql://me:secret", "postgresql://***"),
        ("postgresql:me:secret@host/db", "postgresql:***"),
        ("postgresql://me@host/db?pasword=secret", "postgresql://me@host/db?pasword=***"),
        ("mysql://me:secret@host/db", "mysql://me:***@host/db"),
    ],
)
def test_a_password_is_not_shown(location: str, text: str) -> None:
    assert masked_url(location) == text


@pytest.mark.parametrize(
    ("location", "expected"),
    [("postgresql://h/d", True), ("postgres://h/d", True), ("postgresql.db", False), ("sqlite:///postgresql", False)],
)
def test_what_is_a_postgresql_database(location: str, expected: bool) -> None:
    assert is_postgres(location) is expected


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://",
        "postgresql:///turns?host=/run/postgresql",
        "postgres://me@host/turns?sslmode=verify-full",
        "postgresql://me:a:b%40c@[::1]:5432/turns",
        "postgresql://me:secret@one:1,two:2/turns",
        "postgresql://me:secret@%2Frun%2Fpostgresql/turns",
    ],
)
def test_urls_of_postgresql(location: str) -> None:
    check_postgres(location)


@pytest.mark.parametrize(
    "location",
    [
        "postgresql:turns",
        "POSTGRESQL://host/turns",
        "postgresql://me:secret",
        "postgresql://me:se/cret@host/turns",
        "postgresql://me:se#cret@host/turns",
        "postgresql://me:se?cret@host/turns",
        "postgresql://me:se@cret@host/turns",
        "postgresql://me:se[cret@host/turns",
        "postgresql://me:se cret@host/turns",
        "postgresql://me:100%secret@host/turns",
        "postgresql://me:secret@host:port/turns",
    ],
)
def test_urls_that_could_be_misread_are_refused_without_a_word_of_them(location: str) -> None:
    assert is_postgres(location)
    with pytest.raises(ValueError, match="expected postgresql://HOST") as refused:
        check_postgres(location)
    assert "cret" not in str(refused.value)
    assert "cret" not in masked_url(location)
