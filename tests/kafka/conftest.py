"""One broker for all tests of this folder, and three for those that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.artifacts import NotAvailable
from tests.kafka.broker import Broker, Cluster


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        running = Broker(tmp_path_factory.mktemp("kafka"))
    except NotAvailable as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        running = Cluster(tmp_path_factory.mktemp("kafka"))
    except NotAvailable as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def cluster(three_brokers: Cluster) -> Cluster:
    """Three brokers that run, also behind a test that has failed."""
    three_brokers.start()
    return three_brokers
