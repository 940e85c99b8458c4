"""One broker for all tests of a process, and three for those that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.artifacts import NotAvailable
from tests.kafka.broker import Broker, Cluster


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


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        running = Cluster(tmp_path_factory.mktemp("kafka"))
    except NotAvailable as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        running.close()
