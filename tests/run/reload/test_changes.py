"""Which changes of files a run notices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wallaroo.run.reload.changes import Changes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "application.py"
    file.write_bytes(b"a = 1\n")
    return file


def test_what_has_not_changed_is_not_found(file: Path) -> None:
    changes = Changes(file.parent, {str(file): b"a = 1\n"})
    assert [changes.found(), changes.found()] == [False, False]


def test_a_change_of_the_same_size_at_the_same_time_is_found(file: Path) -> None:
    status = file.stat()
    changes = Changes(file.parent, {str(file): b"a = 1\n"})
    file.write_bytes(b"a = 2\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert changes.found()


def test_a_file_that_was_only_touched_is_not_found(file: Path) -> None:
    changes = Changes(file.parent, {str(file): b"a = 1\n"})
    os.utime(file)
    assert not changes.found()


def test_a_file_that_was_replaced_or_removed_is_found(file: Path) -> None:
    changes = Changes(file.parent, {str(file): b"a = 1\n"})
    assert not changes.found()
    other = file.with_suffix(".new")
    other.write_bytes(b"a = 3\n")
    other.replace(file)
    assert changes.found()
    changes.note({str(file): b"a = 3\n"})
    assert not changes.found()
    file.unlink()
    assert changes.found()


def test_a_file_that_is_not_imported_does_not_matter(file: Path) -> None:
    changes = Changes(file.parent, {str(file): b"a = 1\n"})
    (file.parent / "other.py").write_text("")
    assert not changes.found()


def test_after_a_failure_any_source_file_matters_except_those_of_libraries(file: Path) -> None:
    changes = Changes(file.parent, {})
    changes.note({str(file): b"a = 1\n"}, changes.others())
    assert not changes.found()
    libraries = file.parent / "environment"
    libraries.mkdir()
    (libraries / "pyvenv.cfg").write_text("")
    for directory in (libraries, file.parent / ".hidden", file.parent / "__pycache__"):
        directory.mkdir(exist_ok=True)
        (directory / "library.py").write_text("")
    (file.parent / "notes.txt").write_text("")
    assert not changes.found()
    (file.parent / "lacking.py").write_text("")
    assert changes.found()
