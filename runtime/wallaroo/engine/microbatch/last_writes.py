"""Which batch wrote the log of each bucket last: a file of the checkpoint, outside the state store.

Spark's files of a partition belong together, so that an older copy of them looks like the state of
an earlier time, and what an attempt of a task has left that failed looks like what the batch wrote.
The driver notes the logs that a batch has written, and their sums, just before Spark commits it. A
batch may be repeated, and then write other logs; so what was known before it is kept, too.

Batches that follow each other without a gap are noted completely: a log that says that one of them
wrote it, and that is not noted as written then, was left by an attempt that failed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wallaroo.dataflow.bucket_logs import Expected, Written
from wallaroo.errors import damaged
from wallaroo.system.sealed import sealed, unsealed

_FILE = "last-writes.json"


class _LastWrites(NamedTuple):
    batch: int = -1
    """The last batch that is noted."""
    before: dict[str, Written] = {}  # noqa: RUF012 - never changed
    """By log, how it was written last before that batch."""
    after: dict[str, Written] = {}  # noqa: RUF012 - never changed
    """The same, including that batch."""
    since: int = -1
    """The batches after this one are noted completely, up to the last."""


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
    since = known.since if known.batch in {batch - 1, batch} else batch - 1
    before = known.before if known.batch >= batch else known.after
    if known.batch > batch:  # a power failure took those between, and they run again
        before = {log: one for log, one in before.items() if one.at < batch}
    fresh_writes = {log: Written(batch, total) for log, total in logs.items()}
    written = _LastWrites(batch, before, {**before, **fresh_writes}, since)
    # like Spark's own files, it is not synced: `last_written` allows for one that is older
    fresh = checkpoint / f".{_FILE}.new"
    fresh.write_text(sealed(written._asdict()))
    fresh.replace(checkpoint / _FILE)


@functools.lru_cache(maxsize=1)
def _of_batch(checkpoint: Path, batch: int) -> tuple[dict[str, Written], range]:
    """By log, how it was written last before *batch*, and the batches noted completely."""
    known = _read(checkpoint)
    if known.batch > batch:
        return {}, range(0)
    writes = known.after if known.batch < batch else known.before
    return writes, range(known.since + 1, min(known.batch + 1, batch))


def last_written(checkpoint: Path, batch: int, level: int, slot: int) -> Expected:
    """How the log of a bucket was written last before *batch*, as far as that is known.

    Raises:
        DamagedFile: The file is not as it was written.
    """
    writes, noted = _of_batch(checkpoint, batch)
    return Expected(writes.get(log_key(level, slot)), noted)


def _read(checkpoint: Path) -> _LastWrites:
    file = checkpoint / _FILE
    try:
        noted = unsealed(file.read_text())
        batch = noted["batch"]
        writes = _writes(noted["before"]), _writes(noted["after"])
        return _LastWrites(batch, *writes, noted.get("since", batch))
    except FileNotFoundError:
        return _LastWrites()
    except (ValueError, TypeError, LookupError) as error:
        raise damaged(file, error) from error


def _writes(noted: Mapping[str, list[int] | int]) -> dict[str, Written]:
    """What is *noted* of logs; without their sums it is only the batch."""
    return {
        log: Written(one) if isinstance(one, int) else Written(*one) for log, one in noted.items()
    }
