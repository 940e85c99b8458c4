"""State directories in use, without Spark, and a check of their copies."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gateway.harness import U32, finished, outputs, publish
from tests.helpers import PATIENCE_S
from wallaroo.engine.realtime.checkpoint import progress_of
from wallaroo.gateway.consistency.agreement import disagreement, read_held
from wallaroo.gateway.store import Store
from wallaroo.run.state.directory import StateDirectory

RUN = '{"id":"run"}'


def commit(state: Path, epoch: int, chunk: int, opening: str) -> None:
    """Let Spark commit an epoch that ends with *chunk*, which is that of a message."""
    checkpoint = state / "checkpoint"
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(RUN)
    conf = {"conf": {"spark.sql.shuffle.partitions": "2"}}
    place = {"offset": chunk, "chunk": chunk, "opening": opening, "imported": None}
    lines = ["v1", json.dumps(conf), json.dumps(place)]
    (checkpoint / "offsets" / str(epoch)).write_text("\n".join(lines))
    (checkpoint / "commits" / str(epoch)).write_text("v1\n{}")


def process(store: Store, chunk: int) -> None:
    """Accept a message, and publish what it led to: an output and a change of state."""
    store.journal.submit(0, 1, U32.frame(b"m"))
    assert store.journal.flush(PATIENCE_S)
    publish(store, finished(chunk, outputs(b"out"), change=b"change"), query=RUN)


def forget(store: Store, chunk: int) -> None:
    """Let the gateway know that Spark has what chunks up to *chunk* changed."""
    store.outbox.forget(RUN, chunk)
    store.journal.consume(chunk)
    store.writer.flush()


def new_state(directory: Path) -> Path:
    """A state directory that nothing has been in yet."""
    StateDirectory(directory / "state", "Echo", 2).close()
    return directory / "state"


def check(copy: Path) -> None:
    """Check that a start would take a copy."""
    progress, held = progress_of(copy / "checkpoint"), read_held(copy)
    assert disagreement(copy / "checkpoint", progress, held) is None
