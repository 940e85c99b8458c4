"""Dead letters: failed messages, in a database of their own until they are replayed or dropped.

A letter comes in the record of the log that publishes the outputs of its chunk, and the database
knows the last record whose letters it has: so each failed message is exactly one letter, whatever
is killed. The letter of a message that no state has seen
contains the frame as it arrived and can be replayed: it arrives again, after everything else.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from wallaroo.gateway.database import check_structure, connect, transaction
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.model.application import Application
from wallaroo.wire.records import FailedMessage

SCHEMA = """
CREATE TABLE IF NOT EXISTS letter (
    id INTEGER PRIMARY KEY AUTOINCREMENT, set_aside_ns INTEGER NOT NULL, arrived_ns INTEGER,
    source INTEGER NOT NULL, source_name TEXT NOT NULL, pipeline TEXT NOT NULL, step TEXT NOT NULL,
    place TEXT NOT NULL, error TEXT NOT NULL, message TEXT NOT NULL, key TEXT, header INTEGER,
    frame BLOB, bytes INTEGER NOT NULL, replay INTEGER, traceback TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS letter_total (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS taken (log TEXT PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS letter_origin (
    kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (kind, name));
"""
_COLUMNS = (
    "id, set_aside_ns, arrived_ns, source_name, pipeline, step, place, error, message, key, "
    "traceback, header, frame"
)
_ROW_BYTES = 300
"""Approximate size of a letter without its texts and its frame."""

log = structlog.get_logger("wallaroo.gateway")


@dataclass(frozen=True)
class DeadLetterLimits:
    """Limits of what is kept; over either, the oldest letters are dropped, and counted."""

    size_bytes: int = 256 * 1024**2
    """Bytes of letters: a flood of bad messages must not fill the disk."""
    age_s: float = 30 * 24 * 3600.0
    """Seconds that a letter is kept: time enough to notice."""


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter."""

    id: int
    set_aside_ns: int
    """When it failed, in nanoseconds since the Unix epoch."""
    arrived_ns: int | None
    """When it arrived; None if that is no longer known."""
    source: str
    pipeline: str
    step: str
    place: str
    error: str
    message: str
    """Start of the message, printable, as the step had it."""
    key: str | None
    """Its key, printable, if it was known."""
    traceback: str
    """The traceback of the exception, without the runtime's lines; empty if nothing was raised."""
    payload: bytes | None
    """What arrived, without its header; None after a state, where it cannot be replayed. What was
    damaged on disk is kept as it was found, and cannot be replayed either."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        payload = None if self.payload is None else base64.b64encode(self.payload).decode("ascii")
        return {**vars(self), "payload": payload}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeadLetter:
        """The letter that `to_json` wrote."""
        payload = value["payload"]
        return cls(**{**value, "payload": None if payload is None else base64.b64decode(payload)})


@dataclass(frozen=True)
class Choice:
    """Which letters."""

    ids: tuple[int, ...] | None = None
    """Those with these numbers; None for all."""
    source: str | None = None
    """Those of this source; None for all."""
    pipeline: str | None = None
    """Those of this pipeline; None for all."""

    def condition(self) -> tuple[str, list[Any]]:
        """As a condition of SQL, with its values."""
        terms, values = ["TRUE"], list[Any]()
        if self.ids is not None:
            terms.append(f"id IN ({','.join('?' * len(self.ids))})")
            values += self.ids
        for column, value in (("source_name", self.source), ("pipeline", self.pipeline)):
            if value is not None:
                terms.append(f"{column} = ?")
                values.append(value)
        return " AND ".join(terms), values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Choice:
        """From plain JSON values."""
        ids = value["ids"]
        return cls(None if ids is None else tuple(ids), value["source"], value["pipeline"])


class Origins(NamedTuple):
    """Where letters can come from: what the application has, and what kept letters name."""

    sources: list[str]
    pipelines: list[str]


class DeadLetterStore:
    """The letters in a database; the caller holds a lock, and `transaction` if it writes.

    Args:
        path: File of the database; created if missing.
        limits: Bounds of what is kept.

    Raises:
        DamagedDatabase: The database is malformed.
    """

    def __init__(self, path: Path, limits: DeadLetterLimits) -> None:
        if path.exists():
            check_structure(path)
        self._database = connect(path)
        self._limits = limits
        self._database.executescript(SCHEMA)

    def transaction(self) -> AbstractContextManager[None]:
        """Commit what the block does, or undo it if the block, or the commit, raises."""
        return transaction(self._database)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @property
    def totals(self) -> dict[str, int]:
        """Letters kept now (`letters`), their bytes, and those dropped over limits (`dropped`)."""
        totals = {"letters": 0, "bytes": 0, "dropped": 0}
        return totals | dict(self._database.execute("SELECT name, value FROM letter_total"))

    def take(self, log: str, number: int, letters: Sequence[Letter]) -> None:
        """Keep the letters of a record, unless they are kept, and drop the oldest of too many.

        Args:
            log: Name of the log.
            number: Number of the record.
            letters: The letters.
        """
        (last,) = self._database.execute(
            "SELECT coalesce(max(number), 0) FROM taken WHERE log = ?", (log,)
        ).fetchone()
        if number <= last:
            return
        self._database.execute("INSERT OR REPLACE INTO taken VALUES (?, ?)", (log, number))
        now = time.time_ns()
        for letter in letters:
            about = letter.evidence or (None, None, letter.data)
            self._insert(now, letter.source, letter.name, letter.message, *about)
        self._forget(now)

    def begin(self, log: str, last: int) -> None:
        """Note that a log has records up to the number *last*: later ones are yet to come."""
        self._database.execute(
            "UPDATE taken SET number = ? WHERE log = ? AND number > ?", (last, log, last)
        )

    def has(self, place: str) -> bool:
        """Whether there is a letter of this *place*."""
        found = self._database.execute("SELECT 1 FROM letter WHERE place = ?", (place,)).fetchone()
        return found is not None

    def keep_damaged(self, letter: Letter) -> None:
        """Keep a letter of something that was damaged on disk, and so cannot be replayed."""
        now = time.time_ns()
        self._insert(now, letter.source, letter.name, letter.message, frame=letter.data)
        self._forget(now)

    def note_replays(self, number: int) -> None:
        """Let the next replay have a number after this one."""
        self._database.execute(
            "INSERT INTO letter_total VALUES ('replays', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
            (number,),
        )

    def _insert(
        self,
        now_ns: int,
        source: int,
        name: str,
        letter: FailedMessage,
        arrived_ns: int | None = None,
        header: int | None = None,
        frame: bytes | None = None,
    ) -> None:
        """Add a letter; one whose frame has no *header* cannot be replayed."""
        texts = (letter.pipeline, letter.step, letter.place, letter.error, letter.message)
        size = sum(map(len, (*texts, letter.traceback))) + len(frame or b"") + _ROW_BYTES
        if size > self._limits.size_bytes:  # a letter without its payload is better than none
            size, frame, header = size - len(frame or b""), None, None
        self._database.execute(
            "INSERT INTO letter (set_aside_ns, arrived_ns, source, source_name, pipeline, "
            "step, place, error, message, key, traceback, header, frame, bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(now_ns, arrived_ns, source, name, *texts, letter.key, letter.traceback),
                *(header, frame, size),
            ),
        )
        self._add("letters", 1)
        self._add("bytes", size)

    def listed(self, choice: Choice, most: int) -> list[DeadLetter]:
        """The last *most* of the chosen letters, the oldest first."""
        condition, values = choice.condition()
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM letter WHERE {condition} ORDER BY id DESC LIMIT ?",
            (*values, most),
        ).fetchall()
        return [_letter(row) for row in reversed(rows)]

    def note_origins(self, application: Application) -> None:
        """Note the sources and pipelines of *application*, for commands while it is stopped."""
        names = [("source", source.name) for source in application.sources]
        names += [("pipeline", pipeline.name) for pipeline in application.pipelines]
        self._database.execute("DELETE FROM letter_origin")
        self._database.executemany("INSERT OR IGNORE INTO letter_origin VALUES (?, ?)", names)

    def origins(self) -> Origins:
        """The sources and pipelines that letters can come from."""
        return Origins(*map(self._origins, ("source", "pipeline"), ("source_name", "pipeline")))

    def _origins(self, kind: str, column: str) -> list[str]:
        rows = self._database.execute(
            f"SELECT name FROM letter_origin WHERE kind = ? UNION SELECT {column} FROM letter "
            "ORDER BY 1",
            (kind,),
        )
        return [name for (name,) in rows]

    def drop(self, choice: Choice) -> int:
        """Delete the chosen letters; returns how many there were."""
        condition, values = choice.condition()
        return self._delete(condition, values)

    def last(self) -> int:
        """Number of the newest letter; 0 if there is none."""
        (last,) = self._database.execute("SELECT max(id) FROM letter").fetchone()
        return last or 0

    def begin_replay(self, choice: Choice, most_bytes: int, last: int) -> int | None:
        """Note that some of the chosen letters will arrive again: the first of one source.

        Args:
            choice: The letters.
            most_bytes: Bytes of messages over which a replay takes no more.
            last: Number of the last letter to take: later ones are of messages that failed again.

        Returns:
            The number of the replay; None if there is nothing to replay.
        """
        condition, values = choice.condition()
        rows = self._database.execute(
            "SELECT id, source_name, bytes FROM letter "
            f"WHERE {condition} AND header IS NOT NULL AND replay IS NULL AND id <= ? "
            "ORDER BY source_name, id",
            [*values, last],
        )
        chosen: list[int] = []
        size, of = 0, None
        for number, source, bytes_ in rows:
            if chosen and (source != of or size + bytes_ > most_bytes):
                break
            of, size = source, size + bytes_
            chosen.append(number)
        if not chosen:
            return None
        replay = self.totals.get("replays", 0) + 1
        self._add("replays", 1)
        self._database.executemany(
            "UPDATE letter SET replay = ? WHERE id = ?", [(replay, number) for number in chosen]
        )
        return replay

    def replays(self) -> list[int]:
        """Numbers of the replays that have begun and may not be finished."""
        rows = self._database.execute(
            "SELECT DISTINCT replay FROM letter WHERE replay IS NOT NULL ORDER BY 1"
        )
        return [replay for (replay,) in rows]

    def frames(self, replay: int) -> tuple[str, list[bytes]]:
        """Name of the source, and frames of a replay."""
        rows = self._database.execute(
            "SELECT source_name, frame FROM letter WHERE replay = ? ORDER BY id", (replay,)
        ).fetchall()
        return rows[0][0], [frame for _, frame in rows]

    def give_up_replay(self, replay: int) -> None:
        """Note that the letters of a replay do not arrive again."""
        self._database.execute("UPDATE letter SET replay = NULL WHERE replay = ?", [replay])

    def end_replay(self, replay: int) -> int:
        """Delete the letters of a replay, which have arrived; returns how many there were."""
        return self._delete("replay = ?", [replay])

    def _forget(self, now_ns: int) -> None:
        """Drop letters that are too old or too many."""
        oldest = now_ns - int(self._limits.age_s * 1e9)
        dropped = self._delete("set_aside_ns < ? AND replay IS NULL", [oldest])
        surplus = self.totals["bytes"] - self._limits.size_bytes
        if surplus > 0:
            last = 0
            for number, size in self._database.execute("SELECT id, bytes FROM letter ORDER BY id"):
                last, surplus = number, surplus - size
                if surplus <= 0:
                    break
            dropped += self._delete("id <= ? AND replay IS NULL", [last])
        if dropped:
            self._add("dropped", dropped)
            log.warning("dead letters dropped", count=dropped, reason="they are too old or many")

    def _delete(self, condition: str, values: Sequence[Any]) -> int:
        (count, size) = self._database.execute(
            f"SELECT count(*), coalesce(sum(bytes), 0) FROM letter WHERE {condition}", values
        ).fetchone()
        self._database.execute(f"DELETE FROM letter WHERE {condition}", values)
        self._add("letters", -count)
        self._add("bytes", -size)
        return int(count)

    def _add(self, name: str, by: int) -> None:
        self._database.execute(
            "INSERT INTO letter_total VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            (name, by),
        )


def _letter(row: Sequence[Any]) -> DeadLetter:
    *fields, header, frame = row
    values = [*fields, None if frame is None else frame[header:]]
    return DeadLetter(*values)
