"""State larger than memory: one partition without Spark, against the same with all in memory.

    python -m benchmarks.spilled --keys 10_000_000 --memory-gib 2 --in-memory-keys 2_000_000

Each key has 1 kB, half of which cannot be compressed. A start reads the records of the logs, as
after a restart; then chunks of random keys are run: unpacked, looked up, counted by a function,
saved in the record of the chunk.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import wallaroo
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.current_message import packed_arrivals
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.packing import packed_rows
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.realtime.state_memory import StateMemory, local_directory
from wallaroo.resolution.application import resolve

_GIB = 1024**3
_BUCKETS = 512
_AT_ONCE = 5_000
"""Entities of a record that a start reads."""


class Customer:
    """About 1 kB."""

    def __init__(self) -> None:
        self.orders = 0
        self.notes = ""


@wallaroo.state_computation(name="count", state=Customer)
def count(_key: str, customer: Customer) -> None:
    customer.orders += 1


def key_of(number: int) -> str:
    return f"customer-{number:010}"


def program() -> Program:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    counted: Any = stream.key_by(lambda key: key).to(count)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode))
    return Program(resolve(wallaroo.build_application("counting", counted.to_sink(sink))), _BUCKETS)


def records(keys: int, serializer: EntitySerializer) -> Iterator[bytes]:
    """Records of the entities, as a log has them."""
    text = random.Random(0).randbytes(1 << 20).hex()
    for start in range(0, keys, _AT_ONCE):
        entities: dict[Any, Any] = {}
        for number in range(start, min(keys, start + _AT_ONCE)):
            entity = entities[key_of(number)] = Customer()
            place = number * 7919 % (len(text) - 1000)
            entity.notes = text[place : place + 1000]
        yield serializer.record(Changes([entities], [set()]))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(keys: int, memory_gib: float, messages: int, chunk: int) -> dict[str, Any]:
    """Figures of one partition, in this process."""
    made = program()
    serializer = EntitySerializer.of(made)
    gc.disable()  # as in the process of a partition
    before = resident_bytes()
    memory = None
    if memory_gib:
        limit = int(memory_gib * _GIB)
        memory = StateMemory(limit, local_directory(), serializer, made.bucket_in)
    state = PartitionState(serializer, made.bucket_in, made.bucket_of, memory)
    runner = StateRunner(made, TaskResults())
    for bucket in range(_BUCKETS):
        state.open(bucket, f"log-{bucket}", None, [])
    load_s = 0.0
    for record in records(keys, serializer):
        began = time.perf_counter()
        state.serializer.apply(record, state.bucket)
        state.settle()
        load_s += time.perf_counter() - began
    found: dict[str, Any] = {
        "keys": keys,
        "memory_gib": memory_gib,
        "load_s": round(load_s, 1),
        "resident_gib": round((resident_bytes() - before) / _GIB, 2),
    }
    choose, arrivals = random.Random(1), packed_arrivals([])
    for bucket, head in state._heads.items():  # noqa: SLF001 - of logs that need not be replaced
        state._heads[bucket] = dataclasses.replace(head, base_bytes=_GIB)  # noqa: SLF001
    offset = 0
    for share in (0.01, 0.1, 1.0):
        active = max(1, int(keys * share))
        times_s, cpu_s = list[float](), 0.0
        warm = active if share < 1 else 0  # each of the active keys has come once
        for number in range(-(-warm // chunk) + messages // chunk):
            numbers: Sequence[int] = range(number * chunk, (number + 1) * chunk)
            if number * chunk >= warm:
                numbers = [choose.randrange(active) for _ in range(chunk)]
            chosen = [key_of(one) for one in numbers]
            offsets = list(range(offset, offset + chunk))
            offset += chunk
            blob = packed_rows([(0, 0, chosen, list(chosen), offsets)], arrivals)
            began, cpu = time.perf_counter(), time.process_time()
            changes = runner.run([blob], 0, state.bucket)
            state.record(changes)
            state.settle()
            if number * chunk >= warm:
                times_s.append(time.perf_counter() - began)
                cpu_s += time.process_time() - cpu
        done = len(times_s) * chunk
        times_s.sort()
        found[f"{share:.0%}"] = {
            "messages_s": round(done / sum(times_s)),
            "cpu_us": round(cpu_s / done * 1e6, 1),
            "chunk_ms": [
                round(1e3 * statistics.median(times_s), 2),
                round(1e3 * times_s[int(len(times_s) * 0.99)], 2),
                round(1e3 * times_s[-1], 2),
            ],
        }
    found["resident_gib_after"] = round((resident_bytes() - before) / _GIB, 2)
    if memory is not None:
        found["in_memory"] = sum(one.in_memory for one in memory.states)
        found["stored"] = list(memory.figures(0))
    began = time.perf_counter()
    state.end_epoch(1)
    found["epoch_s"] = round(time.perf_counter() - began, 1)
    found["resident_gib_epoch"] = round((resident_bytes() - before) / _GIB, 2)
    return found


@click.command()
@click.option("--keys", default=200_000, show_default=True, help="Entities, of 1 kB each.")
@click.option("--memory-gib", default=0.05, show_default=True, help="Memory for them.")
@click.option("--in-memory-keys", type=int, help="Entities of the run that has all in memory.")
@click.option("--messages", default=100_000, show_default=True, help="Measured for each share.")
@click.option("--chunk", default=1_000, show_default=True, help="Messages of a chunk.")
@click.option("--here", is_flag=True, hidden=True)
def main(
    keys: int,
    memory_gib: float,
    in_memory_keys: int | None,
    messages: int,
    chunk: int,
    here: bool,
) -> None:
    """Measure state larger than memory; each run is a separate process."""
    if here:
        print(json.dumps(measured(keys, memory_gib, messages, chunk)))
        return
    for number, gib in ((in_memory_keys or keys, 0.0), (keys, memory_gib)):
        options = [f"--keys={number}", f"--memory-gib={gib}", f"--messages={messages}"]
        command = [sys.executable, "-m", "benchmarks.spilled", "--here", f"--chunk={chunk}"]
        done = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, text=True)
        for name, value in json.loads(done.stdout).items():
            print(f"{name}: {value}")
        print()


if __name__ == "__main__":
    main()
