"""Settings shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from postgres_server import PostgresServer, running_postgres, why_not

# Whether a property holds does not depend on how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-turns",
        type=int,
        default=1_000,
        metavar="N",
        help="Turns that two proxies capture while proxies and workers are killed; 10000 takes minutes.",
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    if reason := why_not():
        pytest.skip(reason)
    with running_postgres() as server:
        yield server
