"""Small files that are all what they were or all what they are to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wallaroo.system.atomic_write import write_durably

_WRITE_FOR_EVER = """
import sys
from pathlib import Path
from wallaroo.system.atomic_write import write_durably

print("writes", flush=True)
while True:
    for letter in "ab":
        write_durably(Path(sys.argv[1]), letter * 100_000)
"""


def test_a_file_gets_new_content_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "note"
    write_durably(file, "one")
    write_durably(file, "two")
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("note", "two")]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "note"
    write_durably(file, "one")
    with pytest.raises(UnicodeEncodeError):
        write_durably(file, "x" * 100_000 + "\ud800")
    assert file.read_text() == "one"


def test_a_writer_that_is_killed_leaves_the_one_or_the_other(tmp_path: Path) -> None:
    file = tmp_path / "note"
    write_durably(file, "a" * 100_000)
    for _ in range(5):
        command = [sys.executable, "-c", _WRITE_FOR_EVER, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writes\n"
            writer.kill()
        assert file.read_text() in {"a" * 100_000, "b" * 100_000}
