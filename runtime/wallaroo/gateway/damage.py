"""Damage to the log: refused with a name and a remedy, or set aside if that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from wallaroo.errors import RESTORE, SKIP, DamagedFile
from wallaroo.gateway.contents import Contents
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import DeadLetterStore
from wallaroo.gateway.journal.openings import Opening, is_known
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import DamagedLog
from wallaroo.gateway.marks import mark_file, read_mark, remove_mark
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.system.printable import printable
from wallaroo.wire.records import FailedMessage

LOG, LETTERS = "log", "letters.db"
"""The directory of the log, and the database of dead letters, in the gateway's directory."""
_SHOWN_BYTES = 60
"""Bytes of what is damaged that a dead letter shows."""

log = structlog.get_logger("wallaroo.gateway")


def check_contents(file: Path, found: Contents, outbox: Outbox) -> None:
    """Refuse a log without what nothing else has.

    Args:
        file: Its directory.
        found: What its records say.
        outbox: The same about outputs.

    Raises:
        DamagedLog: There are no tables, or no changes of state that the checkpoint may lack.
    """
    problem = None
    if found.has_records and found.tables is None:
        problem = "no record is left that says what was in it before"
    elif found.lacks_resumption:
        problem = "the record is missing that gave messages or outputs other numbers"
    elif (missing := outbox.chunks.missing()) is not None:
        problem = (
            f"the changes of state of chunks {missing[0]} to {missing[1]} are missing; without "
            "them, state would be wrong"
        )
    if problem is not None:
        raise DamagedLog(file, problem, first=0, last=None)


class Damage:
    """Decides whether a log that is not as it was written can be used.

    Args:
        directory: The gateway's directory.
        letters: Takes what is left of damaged records.
        sources: Names of the application's sources.
        skips: Whether damage is set aside.
    """

    def __init__(
        self, directory: Path, letters: DeadLetterStore, sources: Sequence[str], *, skips: bool
    ) -> None:
        self._file, self._letters = directory / LOG, letters
        self._source, self._skips = sources[0], skips
        self._mark = read_mark(self._file)

    def durable(self, name: bytes) -> int:
        """Number of the last record that the log called *name* is known to have had on disk."""
        return self._mark.record if self._mark is not None and self._mark.name == name.hex() else 0

    def skip(self, damaged: DamagedLog) -> bytes:
        """Keep what is left of damaged records as a dead letter, once."""
        place = f"{damaged.file.name}: records {damaged.first} to {damaged.last or '…'}"
        self._keep(place, damaged.data, "it does not match its checksum")
        log.warning(
            "damaged records set aside",
            file=str(damaged.file),
            first=damaged.first,
            last=damaged.last,
        )
        return b""

    def check_end(self, found: Log, end: int, openings: Sequence[Opening]) -> int:
        """Refuse a log that lacks records which were on disk, unless such are skipped.

        Args:
            found: The log, which is recovered.
            end: Offset after its last message.
            openings: Its openings.

        Returns:
            Offset after the last message that was ever accepted.

        Raises:
            DamagedFile: Records are missing at its end.
        """
        mark, file = self._mark, mark_file(self._file)
        if mark is None:
            if file.exists() and file.stat().st_size:
                log.warning(
                    "damaged mark ignored",
                    file=str(file),
                    reason="it does not match its checksum",
                    consequence="if the end of the log is missing, nothing tells it at this start",
                )
            return end
        last = found.next - 1
        is_other = found.name.hex() != mark.name
        if not is_other and last >= mark.record:
            if is_known(openings, mark.opening):
                return max(end, mark.end)  # the last messages may have been skipped
            is_other = True  # a copy that was continued
        first = 0 if is_other else end
        if first < mark.end:
            problem = f"messages {first} to {mark.end - 1}, which were accepted, are missing"
            otherwise = "the application resumes without them"
        else:
            first_record = 1 if is_other else last + 1
            problem = f"its records {first_record} to {mark.record} are missing"
            otherwise = (
                "messages whose outputs were published last are processed again, and outputs that "
                "were delivered are sent a second time"
            )
        if not self._skips:
            remedy = (
                f"was the end of the log cut, or the log replaced by an older copy? {RESTORE}; if "
                f"it was restored with the checkpoint from one backup, remove {file.name}; or "
                f"start with {SKIP}: {otherwise}"
            )
            msg = f"{self._file} is damaged: {problem}; {remedy}"
            raise DamagedFile(msg)
        if first < mark.end:
            self._keep(f"log: messages {first} to {mark.end - 1}", b"", "it is missing")
        remove_mark(self._file)
        log.warning("missing records skipped", file=str(self._file), problem=problem)
        return max(end, mark.end) if first else end

    def _keep(self, place: str, data: bytes, error: str) -> None:
        with self._letters.transaction():
            if not self._letters.has(place):
                shown = printable(data[:_SHOWN_BYTES].decode("utf-8", "replace"))
                message = FailedMessage("", "", place, error, shown)
                self._letters.keep_damaged(Letter(0, self._source, message, data=data))
