"""Spark's settings for a real-time query, and for reading the state of one."""

from __future__ import annotations

import sys

SETTINGS = {
    # each row leaves at once, and the thread that flushes buffers sleeps
    "spark.shuffle.streaming.networkBufferSize": "32",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
    "spark.shuffle.manager.incremental": "org.apache.spark.wallaroo.GuardedShuffleManager",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # it starts the agent, which starts the Python processes
    "spark.plugins": "wallaroo.realtime.Plugin",
    "spark.wallaroo.python": sys.executable,
}
LONGEST_EPOCH_MS = 24 * 3600 * 1000
"""Spark's bound of an epoch; the gateway ends epochs long before."""


def slots_of(partitions: int) -> int:
    """Tasks of a query of so many *partitions*: all run at once, and mostly wait."""
    return partitions + 1


def local_master(partitions: int) -> str:
    """The master for a query of so many *partitions* on local Spark.

    One task more can run, which reads the state for a look-up meanwhile.
    """
    return f"local[{slots_of(partitions) + 1},1]"
