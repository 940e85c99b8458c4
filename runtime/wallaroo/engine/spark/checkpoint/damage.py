"""Damage to a checkpoint: how a failure of Spark shows it, and which file it is.

Spark says that it cannot load a state store, and not which of its files it cannot read, nor whether
one is damaged: it says the same if a disk is full. Only the files that the last commit needs are
examined, the newest first: Spark reads no others.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wallaroo.engine.spark.checkpoint.epochs import numbers_in
from wallaroo.engine.spark.checkpoint.xxhash import xxhash32
from wallaroo.errors import RESTORE, damaged
from wallaroo.system.object_store import on_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TableProblem = Callable[[Path], str | None]
"""Returns what is wrong with a table of RocksDB; None if nothing is."""
_SIGNS = re.compile(
    r"CANNOT_LOAD_STATE_STORE(?!\.UNRELEASED_THREAD)|STATE_STORE_CHECKSUM|CHECKSUM_VERIFICATION"
    r"|FAILED_TO_READ|Stream is corrupted|Corruption: |CANNOT_READ_(?:DELTA|SNAPSHOT|CHECKPOINT)"
)
"""What Spark and RocksDB write where they cannot read a file of the state."""
_OURS = re.compile(r"\b(?:DamagedFile|OtherVersion): (.+)")
_VERSION = re.compile(r"(\d+)(?:_[-\w]+)?\.(changelog|zip)")
_SPARKS_ADVICE = re.compile(r"[^.]*\bcheckpoint location\b[^.]*\.?")
"""It suggests deleting the checkpoint."""
_BLOCK = struct.Struct("<8sBIII")
_MAGIC, _SEED, _SUM_BITS = b"LZ4Block", 0x9747B28C, 0x0FFFFFFF
_LZ4 = 0x20
_TOGETHER = 256
"""Blocks whose checksums are computed together: 8 MiB, as they are written."""


def is_damage(error: str) -> bool:
    """Whether *error*, the text of a failure of Spark, shows that its state cannot be read.

    Example:
        >>> is_damage("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred …")
        True
        >>> is_damage("java.io.IOException: Connection reset")
        False
    """
    return _SIGNS.search(error) is not None


def damaged_file_in(error: str) -> str | None:
    r"""What a `DamagedFile` in *error*, the text of a failure of Spark, says; None without one.

    An `OtherVersion` is as final.

    Example:
        >>> damaged_file_in("Traceback …\nwallaroo.errors.DamagedFile: it is old\n\tat java.base…")
        'it is old'
    """
    found = _OURS.search(error)
    return None if found is None else found[1].strip()


class Diagnosis(NamedTuple):
    """Why Spark cannot load the state of a checkpoint."""

    sentence: str
    """With what to do."""
    is_sure: bool
    """Whether a damaged file was found."""


def diagnose(checkpoint: Path, table_problem: TableProblem, reason: str) -> Diagnosis:
    """Find out why Spark cannot load the state of *checkpoint*.

    Args:
        checkpoint: Its directory.
        table_problem: Examines tables.
        reason: What Spark says.
    """
    for file, problem in damaged_files(checkpoint, table_problem):
        return Diagnosis(str(damaged(file, problem)), is_sure=True)
    where, said = checkpoint / "state", _SPARKS_ADVICE.sub("", reason).strip()
    what = f"the state in {where} cannot be loaded, although no file of it is damaged by itself"
    return Diagnosis(f"{what}: {said}; start again, and if that does not help, {RESTORE}", False)


def damaged_files(
    checkpoint: Path, table_problem: TableProblem = lambda _file: None
) -> Iterator[tuple[Path, str]]:
    """The damaged or missing files that the last commit of *checkpoint* needs, and what is wrong.

    Args:
        checkpoint: Its directory.
        table_problem: Examines tables.
    """
    if not (commits := numbers_in(checkpoint / "commits")):
        return  # the state is empty, and has no files
    version = max(commits) + 1
    named = _names(checkpoint, version - 1)
    for partition in sorted(checkpoint.glob("state/*/[0-9]*")):
        needed = named.get((partition.parent.name, partition.name))
        yield from _damaged_in(partition, version, needed, table_problem)


def _names(checkpoint: Path, epoch: int) -> dict[tuple[str, str], str]:
    """The name in the last file of each operator and partition, where the commit has one."""
    try:
        text = (checkpoint / "commits" / str(epoch)).read_text().splitlines()[-1]
        operators = json.loads(text).get("stateUniqueIds") or {}
    except (OSError, ValueError, IndexError, AttributeError):
        return {}
    return {
        (operator, str(number)): ids[0]
        for operator, partitions in operators.items()
        for number, ids in enumerate(partitions)
        if ids
    }


def _damaged_in(
    directory: Path, version: int, name: str | None, table_problem: TableProblem
) -> Iterator[tuple[Path, str]]:
    found: dict[int, list[Path]] = {}
    for file in directory.iterdir():
        if (matched := _VERSION.fullmatch(file.name)) is not None and int(matched[1]) <= version:
            found.setdefault(int(matched[1]), []).append(file)
    if not any(name is None or name in file.name for file in found.get(version, ())):
        ending = f"_{name}" if name else ""
        yield directory / f"{version}{ending}.changelog", "it is missing"
    for number in range(version, 0, -1):
        if number not in found:
            if number < version:
                ending = "_*" if name else ""
                yield directory / f"{number}{ending}.changelog", "it is missing"
            return
        for file in found[number]:
            check = _zip_problem if file.suffix == ".zip" else _changelog_problem
            if (problem := check(file)) is not None:
                yield file, problem
            elif file.suffix == ".zip":
                yield from _damaged_tables(file, table_problem)
        if any(file.suffix == ".zip" for file in found[number]):
            return  # Spark reads nothing older


def _zip_problem(file: Path) -> str | None:
    try:
        with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
            bad = archive.testzip()
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        return str(error)
    return None if bad is None else f"its part {bad} does not match its checksum"


def _damaged_tables(snapshot: Path, table_problem: TableProblem) -> Iterator[tuple[Path, str]]:
    """The damaged or missing tables of a *snapshot*."""
    with snapshot.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        _, text = archive.read("metadata").decode().split("\n", 1)
    for table in json.loads(text)["sstFiles"]:
        file = snapshot.parent / "SSTs" / table["dfsSstFileName"]
        if not file.exists():
            yield file, "it is missing"
        elif (size := file.stat().st_size) != table["sizeBytes"]:
            yield file, f"it has {size:,} bytes instead of {table['sizeBytes']:,}"
        elif (problem := table_problem(file)) is not None:
            yield file, problem


def _changelog_problem(file: Path) -> str | None:
    """What is wrong with a changelog: blocks of LZ4 with checksums."""
    data = file.read_bytes()
    if not data.startswith(_MAGIC):
        return "it does not begin as a changelog does"
    blocks = _blocks(data)
    while some := list(islice(blocks, _TOGETHER)):
        sums = xxhash32([block.content or b"" for block in some], _SEED)
        for block, total in zip(some, sums, strict=True):
            if block.place == len(data):
                return "its end is missing"
            if block.content is None or total & _SUM_BITS != block.checksum:
                problem = "is incomplete or does not match its checksum"
                return f"the block at byte {block.place} {problem}"
    return None


class _Block(NamedTuple):
    """A block of a changelog."""

    place: int
    content: bytes | None
    """None if it cannot be read; no other follows then."""
    checksum: int = 0


def _blocks(data: bytes) -> Iterator[_Block]:
    """The blocks of a changelog, without the last one, which is empty."""
    import pyarrow as pa

    place = 0
    while len(data) - place >= _BLOCK.size:
        magic, token, size, original, checksum = _BLOCK.unpack_from(data, place)
        content = data[place + _BLOCK.size : place + _BLOCK.size + size]
        if magic != _MAGIC or len(content) < size:
            break
        if not size:
            return
        if original and token & 0xF0 == _LZ4:
            try:
                content = pa.decompress(content, original, codec="lz4_raw", asbytes=True)
            except (OSError, ValueError):
                break
        yield _Block(place, content, checksum)
        place += _BLOCK.size + size
    yield _Block(place, None)


def table_problem(session: SparkSession, file: Path) -> str | None:
    """What is wrong with the table *file*; None if nothing is, or Spark's Java has ended."""
    from py4j.protocol import Py4JError, Py4JJavaError

    rocksdb = session._jvm.org.rocksdb
    try:
        rocksdb.RocksDB.loadLibrary()
        options = rocksdb.Options()
        reader = rocksdb.SstFileReader(options)
        try:
            with on_disk(file) as table:
                reader.open(str(table))
                reader.verifyChecksum()
        finally:
            reader.close()
            options.close()
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage()).partition(" in /")[0]
    except (Py4JError, OSError):
        return None
    return None
