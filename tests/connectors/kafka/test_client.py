"""Clients of librdkafka, and what is left of them."""

from __future__ import annotations

import gc
import threading
import weakref

from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.topic import Topic


def test_a_client_is_freed_by_who_had_it_and_not_by_the_garbage_collector() -> None:
    client = TopicClient(Topic("orders", "127.0.0.1:1"), threading.Event())
    asked = client.ask()
    freed = weakref.ref(client._admin)
    gc.disable()
    try:
        del client
        assert freed() is None
    finally:
        gc.enable()
    assert asked
