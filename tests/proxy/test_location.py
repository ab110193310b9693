"""Where a store is, and what of it may be shown."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.config import Settings
from a2a_eval_proxy.location import is_postgres, shown


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
        ("mysql://me:secret@host/db", "mysql://me:***@host/db"),
    ],
)
def test_a_password_is_not_shown(location: str, text: str) -> None:
    assert shown(location) == text


@pytest.mark.parametrize(
    ("location", "expected"),
    [("postgresql://h/d", True), ("postgres://h/d", True), ("postgresql.db", False), ("sqlite:///postgresql", False)],
)
def test_what_is_a_postgresql_database(location: str, expected: bool) -> None:
    assert is_postgres(location) is expected


def test_settings_do_not_show_it() -> None:
    settings = Settings(upstream="http://agent", store="postgresql://me:secret@host/db")
    assert "secret" not in repr(settings)
    assert "postgresql://me:***@host/db" in repr(settings)
