"""Which batch wrote the log of each bucket last: a file of the checkpoint, outside the state store.

Spark's files of a partition belong together, so that an older copy of them looks like the state of
an earlier time, and what an attempt of a task has left that failed looks like what the batch wrote.
The driver notes the logs that a batch has written, and their sums, just before Spark commits it. A
batch may be repeated, and then write other logs; so what was known before it is kept, too.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wallaroo.dataflow.bucket_logs import Written
from wallaroo.errors import RESTORE, DamagedFile
from wallaroo.system.sealed import sealed, unsealed

_FILE = "last-writes.json"


class _LastWrites(NamedTuple):
    batch: int = -1
    """The last batch that is noted."""
    before: dict[str, Written] = {}  # noqa: RUF012 - never changed
    """By log, how it was written last before that batch."""
    after: dict[str, Written] = {}  # noqa: RUF012 - never changed
    """The same, including that batch."""


def log_key(level: int, slot: int) -> str:
    """What the log of a bucket is called in the file."""
    return f"{level}:{slot}"


def note_written(checkpoint: Path, batch: int, logs: Mapping[str, int]) -> None:
    """Note that *batch*, which Spark has not committed, has written *logs*.

    Args:
        checkpoint: Directory of the checkpoint.
        batch: Number of the batch.
        logs: Their sums, by name as from `log_key`.

    Raises:
        DamagedFile: The file is not as it was written.
    """
    known = _read(checkpoint)
    before = known.before if known.batch >= batch else known.after
    fresh_writes = {log: Written(batch, total) for log, total in logs.items()}
    written = _LastWrites(batch, before, {**before, **fresh_writes})
    # like Spark's own files, it is not synced: `last_written` allows for one that is older
    fresh = checkpoint / f".{_FILE}.new"
    fresh.write_text(sealed(written._asdict()))
    fresh.replace(checkpoint / _FILE)


@functools.lru_cache(maxsize=1)
def _of_batch(checkpoint: Path, batch: int) -> dict[str, Written]:
    """By log, how it was written last before *batch*, as far as that is known."""
    known = _read(checkpoint)
    if known.batch < batch:
        return known.after
    return known.before if known.batch == batch else {}


def last_written(checkpoint: Path, batch: int, level: int, slot: int) -> Written | None:
    """How the log of a bucket was written last before *batch*; None if that is not known.

    Raises:
        DamagedFile: The file is not as it was written.
    """
    return _of_batch(checkpoint, batch).get(log_key(level, slot))


def _read(checkpoint: Path) -> _LastWrites:
    file = checkpoint / _FILE
    try:
        noted = unsealed(file.read_text())
        return _LastWrites(noted["batch"], _writes(noted["before"]), _writes(noted["after"]))
    except FileNotFoundError:
        return _LastWrites()
    except (ValueError, TypeError, LookupError) as error:
        msg = f"{file} is damaged: {error}; {RESTORE}"
        raise DamagedFile(msg) from error


def _writes(noted: Mapping[str, list[int] | int]) -> dict[str, Written]:
    """What is *noted* of logs; without their sums it is only the batch."""
    return {
        log: Written(one) if isinstance(one, int) else Written(*one) for log, one in noted.items()
    }
