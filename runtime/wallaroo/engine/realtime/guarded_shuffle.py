"""Copies of the classes of Spark's streaming shuffle that connect with authentication.

Spark 4.3 creates the connections of this shuffle without the steps that authenticate and encrypt
all its others, and has no setting for it. The copies differ from the originals only in names:
their own, and that of the class that creates connections, for which they have `GuardedContext` of
`jvm/Shuffle.scala`. A name is an entry of a class file's table of constants: no code changes.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import UsageError

_SPARK, _OURS = "org/apache/spark/shuffle/streaming/", "org/apache/spark/wallaroo/"
_COPIED = ("StreamingShuffleReader", "StreamingShuffleWriter")
"""Prefixes of the classes that are copied."""
_CONTEXT, _GUARDED = "org/apache/spark/network/TransportContext", f"{_OURS}GuardedContext"
_UTF8, _LONG, _DOUBLE = 1, 5, 6
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}
"""Sizes of other constants by tag, in bytes. Source: Java Virtual Machine Specification, 4.4."""


def guarded_classes(jars: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the copied class files.

    Args:
        jars: Directory of Spark's jars.

    Raises:
        UsageError: Spark's classes do not create connections as expected.
    """
    connecting = 0
    for jar in jars.glob("spark-core_*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(tuple(_SPARK + copied for copied in _COPIED)):
                    original = archive.read(name)
                    copy = renamed(original)
                    connecting += _GUARDED.encode() in copy
                    yield name.replace(_SPARK, _OURS), copy
    if connecting != len(_COPIED):
        msg = (
            f"{connecting} classes of Spark's streaming shuffle in {jars} create connections, in "
            f"place of {len(_COPIED)}, so that these cannot be authenticated; install the PySpark "
            "that this version of wallaroo requires"
        )
        raise UsageError(msg)


def renamed(content: bytes) -> bytes:
    """The class file *content* with the names of the copies."""
    (count,) = struct.unpack_from(">H", content, 8)
    made, at, index = [content[:10]], 10, 1
    while index < count:
        tag = content[at]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", content, at + 1)
            text = _rename(content[at + 3 : at + 3 + size])
            made.append(struct.pack(">BH", tag, len(text)) + text)
            at += 3 + size
        else:
            made.append(content[at : at + 1 + _SIZES[tag]])
            at += 1 + _SIZES[tag]
        index += 2 if tag in {_LONG, _DOUBLE} else 1
    return b"".join([*made, content[at:]])


def _rename(text: bytes) -> bytes:
    for copied in _COPIED:
        text = text.replace((_SPARK + copied).encode(), (_OURS + copied).encode())
    return text.replace(_CONTEXT.encode(), _GUARDED.encode())
