"""A directory of files, each complete when it appears, and a note of what has been written.

A file is written under a hidden name; then the note says which one it is and the number of the next
output; then it gets its name. Whatever is killed in between, the note tells whether it counts.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.errors import RuntimeFailure
from wallaroo.system.atomic_write import wait_until_durable, write_durably
from wallaroo.system.failpoints import fault
from wallaroo.system.private_files import as_outside

if TYPE_CHECKING:
    import pyarrow as pa


class FileSeries:
    """The files of one sequence of numbered outputs.

    Args:
        directory: Where they are; created if necessary.
        series: Name of the sequence, with which their names begin.

    Raises:
        RuntimeFailure: The note is damaged, or another process writes the series.
        OSError: The directory cannot be used.
    """

    def __init__(self, directory: Path, series: str) -> None:
        self._directory, self._series = directory, series
        self._note = directory / f".{series}.position"
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(directory / f".{series}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            noted = self._noted()
            self.next = int(noted.get("next", 0))
            """Number of the next output, from 0 on."""
            self.is_new = not noted
            """Whether nothing has been written."""
            self.refused = {int(n): str(why) for n, why in noted.get("refused", {}).items()}
            """Outputs up to there that are in no file since they do not fit, and why: the last."""
            if noted.get("file"):
                self._publish(noted["file"])
            for left in directory.glob(f".{series}-*.parquet"):
                left.unlink()
        except BlockingIOError:
            os.close(self._lock)
            msg = f"{directory} is locked: another process is writing to it"
            raise RuntimeFailure(msg) from None
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Let others write."""
        os.close(self._lock)

    def write(self, end: int, table: pa.Table | None, refused: dict[int, str]) -> None:
        """Write the outputs up to number *end*.

        Args:
            end: Number after the last of them.
            table: Their rows; None if there are none.
            refused: Outputs of them that are not in the table, and why.
        """
        name = "" if table is None else f"{self._series}-{self.next:020}-{end - 1:020}.parquet"
        if table is not None:
            self._store(table, name)
        fault("parquet-sink-before-note")
        noted = {"next": end, "file": name, "refused": refused}
        write_durably(self._note, json.dumps(noted))
        fault("parquet-sink-after-note")
        if table is not None:
            self._publish(name)
        fault("parquet-sink-after-publish")
        self.next, self.refused = end, refused

    def _store(self, table: pa.Table, name: str) -> None:
        """Write *table* under the hidden form of *name*, durably."""
        import pyarrow.parquet as pq

        hidden = self._directory / f".{name}"
        with hidden.open("wb") as file:
            as_outside(file.fileno())  # others may be meant to read it
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())

    def _publish(self, name: str) -> None:
        """Give a file its name, if it has not got it yet."""
        hidden = self._directory / f".{name}"
        if hidden.exists():
            hidden.replace(self._directory / name)
        wait_until_durable(self._directory)

    def _noted(self) -> dict[str, Any]:
        try:
            noted: dict[str, Any] = json.loads(self._note.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            msg = f"{self._note} is corrupt; move the files of {self._directory} to another one"
            raise RuntimeFailure(msg) from None
        return noted
