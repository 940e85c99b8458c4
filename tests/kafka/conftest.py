"""One broker for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.artifacts import NotAvailable
from tests.kafka.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        running = Broker(tmp_path_factory.mktemp("kafka"))
    except NotAvailable as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        running.stop()
