"""The micro-batch engine on a cluster: what a release does in chunks, it does in batches as well.

Word Count is gone before Market Spread is installed: a small node has no room for both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.harness import Cluster, Peer, Release
from tests.cluster.test_faults import (
    test_all_pods_are_deleted_at_once,
    test_an_executor_crashes,
    test_the_driver_is_deleted,
    test_the_gateway_is_deleted_while_senders_are_connected,
    test_uninstall_leaves_nothing,
)
from tests.cluster.test_scaling import (
    test_install_and_helm_test,
    test_workers_go_up_and_down_while_messages_stream,
)

__all__ = [  # tests of other modules, which run here on this engine
    "test_all_pods_are_deleted_at_once",
    "test_an_executor_crashes",
    "test_install_and_helm_test",
    "test_the_driver_is_deleted",
    "test_the_gateway_is_deleted_while_senders_are_connected",
    "test_uninstall_leaves_nothing",
    "test_workers_go_up_and_down_while_messages_stream",
]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def market_spread(cluster: Cluster, helms: list[str]) -> Release:
    """Market Spread on this engine, not installed yet."""
    return Release(cluster, helms[0], "mb-spread", "market-spread", {"engine": "micro-batch"})


@pytest.fixture(scope="module")
def word_count(cluster: Cluster, helms: list[str]) -> Release:
    """Word Count on this engine, not installed yet."""
    values = {"partitions": 4, "engine": "micro-batch"}
    return Release(cluster, helms[-1], "mb-words", "word-count", values)


@pytest.fixture(scope="module")
def word_peer(word_count: Release) -> Iterator[Peer]:
    """What sends to Word Count, and takes its outputs; it is installed now."""
    peer = Peer(word_count)
    peer.start()
    word_count.install("--set", f"outputs[0]={peer.address},workers=2")
    word_count.wait_until_ready()
    yield peer
    peer.remove()
