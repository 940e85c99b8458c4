"""An archive of segments: a folder with a compressed file for each of them.

It is a directory, or on an object store.

The name of a file says of which log and which segment it is, and has the SHA-256 of what is in it:
`zstd -dc FILE | sha256sum` confirms it. A file has its name only once all of it is on disk, or in
the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wallaroo.errors import DamagedFile, RuntimeFailure, reason_of
from wallaroo.gateway.log.segments import HEAD_BYTES, Head, parsed_head
from wallaroo.system.atomic_write import wait_until_durable
from wallaroo.system.failpoints import fault
from wallaroo.system.object_store import ObjectPath, is_stored

if TYPE_CHECKING:
    import pyarrow

_NAME = re.compile(r"(?P<log>[0-9a-f]{32})-(?P<first>[0-9a-f]{16})-(?P<digest>[0-9a-f]{64})\.zst")
_CODEC = "zstd"
REMEDY = (
    "restore the right file, or move it and all older ones of the log elsewhere, or leave out "
    "--archive"
)
"""What to do about a file of an archive that cannot be used."""
_FILE_MODE = 0o600
_PIECE_BYTES = 1024**2
_READ_BYTES, _HEAD_READ_BYTES = 8 * 1024**2, 64 * 1024
"""Bytes that are read at once of a file, and of one of which only the head is needed: each is a
request to an object store."""


def archive(segment: Path, directory: Path) -> Path:
    """Copy a segment to the archive in a *directory*; once this returns, it is durable there.

    Raises:
        OSError: It cannot be read, or the archive cannot be written.
        RuntimeFailure: The object store refuses a request, or does not answer.
    """
    with segment.open("rb") as source:
        head = parsed_head(source.read(HEAD_BYTES), segment)
        if head is None:
            msg = f"the first bytes of {segment} do not say of which log it is"
            raise OSError(msg)
        source.seek(0)
        if is_stored(directory):
            file = _upload(source, head, directory)
        else:
            file = _copy(source, head, directory)
    fault("archive-named")
    return file


def _copy(source: BinaryIO, head: Head, directory: Path) -> Path:
    """Copy a segment to a directory of a disk."""
    for left in directory.glob(f".{head.name.hex()}-*.part"):  # a kill has cut it short
        if not _is_locked(left):
            left.unlink(missing_ok=True)
    part = directory / f".{_place(head)}-{os.getpid()}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        digest = _compress(source, os.dup(descriptor))
        os.fsync(descriptor)
        fault("archive-copied")
        file = directory / f"{_place(head)}-{digest}.zst"
        part.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    finally:
        os.close(descriptor)
    wait_until_durable(directory)
    return file


def _upload(source: BinaryIO, head: Head, directory: ObjectPath) -> Path:
    """Copy a segment to an object store, whose objects cannot be renamed while they grow."""
    with tempfile.TemporaryFile() as compressed:
        try:
            digest = _compress(source, os.dup(compressed.fileno()))
        except OSError as error:
            msg = f"it cannot be compressed in {tempfile.gettempdir()}: {reason_of(error)}"
            raise OSError(msg) from error
        compressed.seek(0)
        file = directory / f"{_place(head)}-{digest}.zst"
        file.write_from(compressed)
    return file


def _place(head: Head) -> str:
    """What the name of the file of a segment begins with."""
    return f"{head.name.hex()}-{head.first:016x}"


def _is_locked(part: Path) -> bool:
    """Whether another process is writing to *part*, for a copy of the log."""
    try:
        with part.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def archived(directory: Path, log: bytes) -> Mapping[int, Sequence[Path]]:
    """The files of the segments of the *log* of this name, by the number of their first record.

    There are several of one number if copies of the log were continued separately.
    """
    found: dict[int, list[Path]] = defaultdict(list)
    for file in directory.iterdir():
        if (name := _NAME.fullmatch(file.name)) is not None and name["log"] == log.hex():
            found[int(name["first"], 16)].append(file)
    return found


def head_of(file: Path) -> Head:
    """The head of the segment in a *file* of an archive.

    Raises:
        DamagedFile: It is not what was archived.
    """
    with _decompressed(file, _HEAD_READ_BYTES) as stream:
        head = parsed_head(stream.read(HEAD_BYTES), file)
    if head is None or not file.name.startswith(f"{_place(head)}-"):
        raise _damaged(file, "its first bytes do not say that it is the segment of this name")
    return head


@contextlib.contextmanager
def extracted(file: Path) -> Iterator[BinaryIO]:
    """The segment in a *file* of an archive, as a file that is open within the block.

    Raises:
        DamagedFile: It is not what was archived.
        RuntimeFailure: It cannot be read, or there is no space for it.
    """
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as found:
        with _decompressed(file, _READ_BYTES) as stream:
            while piece := stream.read(_PIECE_BYTES):
                digest.update(piece)
                found.write(piece)
        name = _NAME.fullmatch(file.name)
        if name is None or digest.hexdigest() != name["digest"]:
            raise _damaged(file, "its content does not have the SHA-256 in its name")
        found.flush()
        yield found


@contextlib.contextmanager
def _decompressed(file: Path, read_bytes: int) -> Iterator[pyarrow.NativeFile]:
    """The decompressed content of a *file* of an archive, read *read_bytes* at a time."""
    import pyarrow as pa

    try:
        if not is_stored(file) and not file.is_file():  # a pipe would be waited for
            raise _damaged(file, "it is not a regular file")
        with (
            file.open("rb", read_bytes) as raw,
            pa.CompressedInputStream(pa.PythonFile(raw, "r"), _CODEC) as stream,
        ):
            yield stream
    except (OSError, pa.ArrowException) as error:
        if number := getattr(error, "errno", None):
            msg = f"{file} cannot be extracted: {os.strerror(number)}"
            raise RuntimeFailure(msg) from error
        raise _damaged(file, "it cannot be decompressed") from error


def _damaged(file: Path, problem: str) -> DamagedFile:
    return DamagedFile(f"{file} is damaged: {problem}; {REMEDY}")


def _compress(source: BinaryIO, descriptor: int) -> str:
    """Compress all of *source* to the file of a *descriptor*, which it closes; the SHA-256."""
    import pyarrow as pa

    digest = hashlib.sha256()
    with (
        os.fdopen(descriptor, "wb") as file,
        pa.CompressedOutputStream(pa.PythonFile(file, "w"), _CODEC) as stream,
    ):
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            stream.write(piece)
    return digest.hexdigest()
