"""Schemas of the state in a checkpoint: Spark writes them once, and without checksums."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from wallaroo.errors import RuntimeFailure, damaged, reason_of
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.sealed_files import sealed, unsealed

_SUMS = "schemas"
"""File with their checksums, by path in the checkpoint."""


def note_schemas(checkpoint: Path) -> bool:
    """Keep the checksums of the schemas in *checkpoint*, if they are not kept yet.

    Args:
        checkpoint: Its directory, after an epoch was committed.

    Returns:
        Whether they are kept now; otherwise, its disk is full, or its store cannot be reached.
    """
    with contextlib.suppress(OSError, RuntimeFailure):
        _note(checkpoint, checkpoint / _SUMS)
        return True
    return False


def _note(checkpoint: Path, file: Path) -> None:
    if file.exists():
        return
    found = [one for one in checkpoint.glob("state/*/_stateSchema/*/*") if one.name[0] != "."]
    sums = {str(one.relative_to(checkpoint)): zlib.crc32(one.read_bytes()) for one in found}
    write_durably(file, sealed(sums))


def check_schemas(checkpoint: Path) -> None:
    """Refuse a *checkpoint* with a schema that is not as Spark wrote it.

    Raises:
        DamagedFile: One is damaged or missing; the message names it and says what to do.
    """
    try:
        sums = unsealed((checkpoint / _SUMS).read_text())
    except FileNotFoundError:
        return  # no epoch was committed, or the run was killed right after the first
    except (OSError, ValueError) as error:
        raise damaged(checkpoint / _SUMS, error) from error
    for name, due in sums.items():
        file, problem = checkpoint / name, None
        try:
            if zlib.crc32(file.read_bytes()) != due:
                problem = "it does not match its checksum"
        except OSError as error:
            problem = reason_of(error)
        if problem is not None:
            raise damaged(file, problem)
