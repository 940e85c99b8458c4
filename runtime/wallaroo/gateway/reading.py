"""Readers of the log, beside the gateway that owns it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wallaroo.gateway.contents import Contents
from wallaroo.gateway.entries import (
    MESSAGES,
    NOTED,
    PUBLISHED,
    Messages,
    changes_in,
    messages_in,
    noted_in,
    published_head,
    query_sum,
)
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.log.records import DamagedLog, Record
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.numbering import Numbering
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application


class Reading:
    """What a log says, for readers: journal and outbox without a writer.

    Args:
        directory: The directory of the log, which may be in use; it may be missing.
        note: Called with each record.
        numbering: What numbers of sources and sinks mean.
        records: What is read instead of what the log has now.

    Raises:
        DamagedLog: It is not as it was written.
    """

    def __init__(
        self,
        directory: Path,
        note: Callable[[Record], None] = lambda _: None,
        numbering: Numbering | None = None,
        records: Iterable[Record] | None = None,
    ) -> None:
        writer, numbering = _NoWriter(), numbering or Numbering()
        self.journal = Journal(writer, JournalLimits(), numbering)  # type: ignore[arg-type]
        self.outbox = Outbox(writer, 0, None)  # type: ignore[arg-type]
        self.contents = found = Contents(self.journal, self.outbox, numbering)
        for record in scan(directory) if records is None else records:
            found.add(record)
            note(record)
        found.finish()
        self.journal.end_reading(self.outbox.processed)


class _NoWriter:
    """In the place of the writer of a log that is read."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.log = None

    def flush(self) -> None:
        """Do nothing."""


def check_application(directory: Path, application: Application) -> list[str]:
    """`check_names` with the names of the sources and sinks of *application*."""
    sources, sinks = application.sources, application.sinks
    return check_names(directory, [one.name for one in sources], [one.name for one in sinks])


def check_names(directory: Path, sources: Sequence[str], sinks: Sequence[str]) -> list[str]:
    """Refuse an application as a start with the log in *directory* would.

    Args:
        directory: The directory of the log, which may be in use; it may be missing.
        sources: Names of the application's sources.
        sinks: Names of its sinks.

    Returns:
        Names of sources that have been read and that the application lacks.

    Raises:
        RuntimeFailure: It lacks a source or sink for which something waits.
        DamagedLog: The log is not as it was written.
    """
    numbering, found = Numbering(sources, sinks), list[Messages]()

    def note(record: Record) -> None:
        if record.kind == MESSAGES:
            entry = numbering.last.messages(messages_in(record.payload))
            if entry.source in numbering.gone("sources"):
                found.append(entry)
        elif record.kind == NOTED and "moved" in noted_in(record.payload):
            found.clear()  # they come again, under other offsets

    reading, messages = Reading(directory, note, numbering), Counter[int]()
    for entry in found:
        if entry.end > reading.journal.processed:
            messages[entry.source] += entry.messages
    queues = reading.outbox.queues
    queues.begin()
    outputs = {sink: queues.undelivered(sink) for sink in numbering.gone("sinks")}
    numbering.check_gone(directory, messages, outputs)
    return reading.journal.unread(sources)


def published_changes(directory: Path, query: str, after: int) -> list[bytes] | None:
    """The changes of state in the log in *directory*, which may be in use; see `Published`.

    Raises:
        DamagedLog: It is not as it was written.
    """
    if not directory.exists():
        return None
    found: list[tuple[int, int, list[tuple[int, int, bytes]]]] = []

    def note(record: Record) -> None:
        if record.kind == PUBLISHED:
            head = published_head(record.payload)
            if head.query == query_sum(query) and head.chunk > after and head.has_changes:
                found.append((head.changed, head.chunk, changes_in(record.payload)))

    outbox = Reading(directory, note).outbox
    if (missing := outbox.chunks.missing()) is not None:
        problem = f"the changes of state of chunks {missing[0]} to {missing[1]} are missing"
        raise DamagedLog(directory, problem, first=0, last=None)
    progress = outbox.progress()
    if query not in progress:  # nothing was published, unless it was in another log
        return None if progress or after else []
    before = found[0][0] if found else outbox.chunks.changed.get(query, 0)
    if progress[query].chunk < after or before > after:  # the log never had them, or no longer has
        return None
    return [data for _, _, changes in found for n, _, data in changes if n > after]
