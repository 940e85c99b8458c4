from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.servers import PostgreSQL, running_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        yield server
