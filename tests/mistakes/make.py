"""Writes the golden texts: `python -m tests.mistakes.make [NAME…]`. Read each one that changes."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mistakes.mistake import CASES, golden_file, read, told


def main(names: list[str]) -> None:
    """Write the golden texts of *names*, or of all cases, and remove those without a case."""
    for file in golden_file("any").parent.iterdir():
        if file.stem not in CASES:
            file.unlink()
    for name in names or CASES:
        with TemporaryDirectory() as directory:
            golden_file(name).write_text(told(read(name), Path(directory).resolve()))


if __name__ == "__main__":
    main(sys.argv[1:])
