"""Logs as gateways write them, of applications that run in this process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tests.dataflow.harness import BUCKETS, Driven
from tests.gateway.harness import outputs, publish
from tests.helpers import WORD_COUNT, framing_of, wait_until
from wallaroo.cli.options import application_without_addresses
from wallaroo.engine.stored import Committed
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.blocks import gathered
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.store import Store
from wallaroo.history.changes import Change
from wallaroo.history.explanation import Explanation
from wallaroo.history.records import records
from wallaroo.model.application import Application
from wallaroo.wire.records import Block, Tally


class Recorded:
    """An application that runs in this process, with the log of its messages and changes.

    Args:
        directory: The directory of the gateway; the log in it may have been begun.
        application: The application.
        earlier: What has written the log so far.
        **more: For `Store`.
    """

    def __init__(
        self,
        directory: Path,
        application: Application,
        earlier: Recorded | None = None,
        **more: Any,
    ) -> None:
        names = [source.name for source in application.sources]
        self.directory, self.application = directory, application
        self.store = Store(
            directory,
            application.name,
            sources=names,
            sinks=[one.name for one in application.sinks],
            **more,
        )
        self.driven = Driven(application)
        self.chunks = 0
        if earlier is not None:
            self.chunks = earlier.chunks
            self.driven.go_on_from(earlier.driven)
        self._names = names

    def run(
        self,
        sent: Sequence[tuple[str, bytes]],
        chunks: int = 1,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Accept messages, run them in some chunks, and publish these together.

        Args:
            sent: Names of sources, and payloads.
            chunks: Number of chunks.
            between: Called before each message.
        """
        for name, payload in sent:
            between()
            source = self._names.index(name)
            frame = framing_of(self.application.sources[source]).frame(payload)
            assert self.store.journal.submit(source, 1, frame)
        assert self.store.journal.flush(10)
        self._publish(list(self.store.journal.read(self.end, self.store.journal.end)), chunks)

    def tick(self) -> None:
        """Run a reading of the clock as a chunk."""
        journal, before = self.store.journal, self.store.journal.end
        journal.alarm.set(0)
        wait_until(lambda: journal.end > before, "the tick")
        assert journal.flush(10)
        blocks = list(journal.read(self.end, journal.end))
        self._publish(blocks, 1)

    def checkpoint(self) -> Committed:
        """Let receivers have all outputs, and a checkpoint all state, which is returned."""
        self.deliver()
        self.store.outbox.forget("run", self.chunks)
        self.store.journal.consume(self.end)
        return self.committed()

    def deliver(self) -> None:
        """Note that receivers have all outputs."""
        for number, sink in enumerate(self.application.sinks):
            if made := self.driven.outputs[sink.name]:
                self.store.outbox.delivered(number, len(made))

    @property
    def end(self) -> int:
        """Offset after the last message that was run."""
        progress = self.store.outbox.progress()
        return max((one.end for one in progress.values()), default=0)

    def committed(self) -> Committed:
        """The state as of now, as a checkpoint has it."""
        logs = list(chain.from_iterable(self.driven.logs.values()))
        return Committed("run", self.end, logs, self.store.journal.opening)

    def _publish(self, blocks: Sequence[Block], chunks: int) -> None:
        blocks = list(blocks)
        step = -(-len(blocks) // chunks) or 1
        finished = []
        for start in range(0, len(blocks), step):
            part = blocks[start : start + step]
            self.chunks += 1
            before = {bucket: len(log) for bucket, log in self.driven.logs.items()}
            sent = {name: len(outputs) for name, outputs in self.driven.outputs.items()}
            tally = self.driven.tally
            letters, late = tally.set_aside, Counter(tally.late)
            self.driven.batch([gathered(part)])
            made = [
                outputs(*self.driven.outputs[sink.name][sent.get(sink.name, 0) :], to=number)
                for number, sink in enumerate(self.application.sinks)
                if len(self.driven.outputs[sink.name]) > sent.get(sink.name, 0)
            ]
            tally = Tally(
                set_aside=tally.set_aside - letters, late=dict(Counter(tally.late) - late)
            )
            changes = [
                (level * BUCKETS + bucket, record)
                for (level, bucket), log in self.driven.logs.items()
                for record in log[before[level, bucket] :]
            ]
            end = part[-1].first + part[-1].messages
            finished.append(FinishedChunk(self.chunks, end, made, tally, changes))
        publish(self.store, *finished)

    def close(self) -> None:
        """Stop, as a gateway does."""
        self.store.close()


def random_messages(
    choose: random.Random, application: Application, most: int
) -> list[tuple[str, bytes]]:
    """Messages for the sources of a random application, at most so many."""
    names = [source.name for source in application.sources]
    return [
        (choose.choice(names), f"{choose.choice('abcd')}{choose.randint(0, 60)}".encode())
        for _ in range(choose.randint(1, most))
    ]


def record_words(directory: Path, *chunks: Sequence[bytes]) -> None:
    """Write the log of Word Count to *directory*, for *chunks* of messages."""
    recorded = Recorded(directory, application_without_addresses(str(WORD_COUNT), ()))
    for messages in chunks:
        recorded.run([("Split and Count", message) for message in messages])
    recorded.close()


def explained(
    directory: Path, application: Application, key: str, state: str | None = None
) -> tuple[list[Change], Explanation]:
    """The changes of a key, and where they are from."""
    explanation = Explanation(application, records(directory / LOG), key, state)
    return list(explanation), explanation
