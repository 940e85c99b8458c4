"""Small files that are all what they were or all what they are to be, whatever dies and when."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(file: Path, text: str) -> None:
    """Make *text* what is in *file*, and on the disk when this returns.

    Where the process or the machine dies meanwhile, the file is there with all of its former
    content or with all of *text*.

    Raises:
        OSError: It could not be written; its former content is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     file = Path(directory, "note.json")
        ...     write_durably(file, "{}")
        ...     file.read_text(), [file.name for file in Path(directory).iterdir()]
        ('{}', ['note.json'])
    """
    fresh = file.with_name(f".{file.name}.new")  # hidden: Spark lists directories of these, too
    try:
        with fresh.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        error.filename = str(file)  # the system names no file where writing fails
        raise
    fresh.replace(file)
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
