"""The files of a log, to be changed as a disk would: nothing notices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wallaroo.gateway.damage import LOG
from wallaroo.gateway.log.records import HEADER, Record
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.log.segments import HEAD_BYTES, parsed_head


class Place(NamedTuple):
    """Where a record is."""

    file: Path
    at: int
    """Where it begins in the file."""
    end: int
    """Where it ends there."""
    record: Record


def segments(directory: Path) -> list[Path]:
    """The segments of the log of a gateway's *directory*, the oldest first."""
    return sorted((directory / LOG).glob("log-*"))


def places(directory: Path, *kinds: int) -> list[Place]:
    """The records of these *kinds*, or all if none are given, in the log of *directory*."""
    while True:
        with contextlib.suppress(FileNotFoundError):  # it was released meanwhile
            return _places(directory, kinds)


def _places(directory: Path, kinds: Sequence[int]) -> list[Place]:
    found, heads = [], []
    for file in segments(directory):
        head = parsed_head(file.read_bytes()[:HEAD_BYTES], file)
        assert head is not None
        heads.append((head.address, file))
    for record in scan(directory / LOG):
        if kinds and record.kind not in kinds:
            continue
        address, file = max(one for one in heads if one[0] <= record.address)
        at = HEAD_BYTES + record.address - address
        kept = record._replace(payload=bytes(record.payload))
        found.append(Place(file, at, at + HEADER.size + len(record.payload), kept))
    return found


def flip(file: Path, at: int) -> None:
    """Change a bit of the byte at a place of *file*."""
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 0x10]))
