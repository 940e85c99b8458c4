"""How much memory the batches of a topic take in the gateway, compared with their contents."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.kafka.broker import Broker

TIMES, RECORD_BYTES = 4, 500
"""How many times its contents a batch takes at most, and how many bytes for each record."""
BOUND_BYTES = 100_000_000
"""What the client unpacks of zstd at most: `receive.message.max.bytes`."""
_CHILD = """
import sys, threading
from pathlib import Path
from confluent_kafka import TopicPartition
from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.fetch import fetch_of
from wallaroo.connectors.kafka.topic import Topic
def taken():
    (line,) = [l for l in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in l]
    return int(line.split()[1]) * 1024
client = TopicClient(Topic(sys.argv[1], sys.argv[2]), threading.Event())
consumer, before, problem, count = client.consumer("memory"), taken(), "", 0
consumer.assign([TopicPartition(sys.argv[1], 0, 0)])
while not problem:
    some = consumer.consume(5000, 1.0)
    fetch = fetch_of(some, 1 << 24, whole=False)
    count += fetch.count
    if failed := [one for one in some if one.error() is not None]:
        problem = failed[0].error().name()
    del some, fetch
print(taken() - before, count, problem)
"""


@pytest.mark.parametrize(
    ("codec", "values", "unpacked"),
    [
        ("gzip", [b"\0" * 900_000] * 100, True),
        ("lz4", [b"\0" * 900_000] * 100, True),
        ("zstd", [b"\0" * 900_000] * 50, True),
        ("zstd", [b"\0" * 900_000] * 130, False),
        ("gzip", [b""] * 500_000, True),
    ],
    ids=["gzip", "lz4", "zstd", "zstd over the bound", "empty records"],
)
def test_a_batch_takes_what_it_is_unpacked_and_some_bytes_for_each_record(
    codec: str, values: list[bytes], unpacked: bool, broker: Broker
) -> None:
    topic = broker.topic(max_message_bytes="4000000")
    options: dict[str, Any] = {
        "compression.type": codec,
        "linger.ms": 3000,
        "batch.num.messages": 1_000_000,
        "batch.size": 200_000_000,
        "message.max.bytes": 200_000_000,
        "queue.buffering.max.kbytes": 200_000,
        "queue.buffering.max.messages": 1_000_000,
    }
    broker.write(topic, *values, **options)
    command = [sys.executable, "-c", _CHILD, topic, broker.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    taken, count, problem = done.stdout.split()
    assert (int(count), problem) == (
        (len(values), "_PARTITION_EOF") if unpacked else (0, "_BAD_COMPRESSION")
    )
    most = TIMES * sum(map(len, values)) if unpacked else BOUND_BYTES
    assert int(taken) < most + RECORD_BYTES * len(values)
