"""Code that was read once is imported whatever its files contain by now."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wallaroo.loading import loader
from wallaroo.loading.frozen_code import FrozenCode, recorded
from wallaroo.loading.loader import ApplicationRef

APPLICATION = """
import wallaroo
from texts import WORD
from package.inner import deeper
import space.part


def application_setup(args):
    pipeline = wallaroo.source(WORD, wallaroo.GenSourceConfig(Numbers())).to_sink(SINK)
    return wallaroo.build_application(WORD + deeper() + space.part.END, pipeline)


class Numbers:
    def initial_value(self):
        return 1

    def apply(self, number):
        return None


SINK = wallaroo.FileSinkConfig("out", str)
"""
FILES = {
    "application.py": APPLICATION,
    "texts.py": "WORD = 'one'\n",
    "package/__init__.py": "",
    "package/inner.py": "def deeper():\n    from .later import TEXT\n    return TEXT\n",
    "package/later.py": "TEXT = ' two'\n",
    "space/part.py": "END = ' three'\n",
}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    loader.unload(tmp_path)


def name_of(directory: Path, code: Path | None = None) -> str:
    return ApplicationRef(str(directory), code=code).load().name


def frozen(directory: Path, name: str = "code") -> Path:
    with recorded(directory) as files:
        loader.unload(directory)
        name_of(directory)
    FrozenCode(directory, files).write(directory / name)
    return directory / name


def test_all_files_that_are_imported_from_the_directory_are_recorded(directory: Path) -> None:
    (directory / "other.py").write_text("")
    code = FrozenCode.read(frozen(directory))
    assert {str(Path(file).relative_to(directory)) for file in code.files} == set(FILES)
    assert code.files[str(directory / "texts.py")] == b"WORD = 'one'\n"


def test_frozen_code_is_imported_though_the_files_have_changed_or_gone(directory: Path) -> None:
    code = frozen(directory)
    (directory / "texts.py").write_text("syntax error(")
    (directory / "package" / "later.py").unlink()
    assert name_of(directory, code) == "one two three"


def test_other_frozen_code_takes_its_place(directory: Path) -> None:
    first = frozen(directory)
    assert name_of(directory, first) == "one two three"
    for file, old, new in (("texts.py", "one", "1"), ("space/part.py", "three", "3")):
        text = (directory / file).read_text()
        (directory / file).write_text(text.replace(old, new))
    second = frozen(directory, "code-2")
    assert name_of(directory, second) == "1 two 3"
    assert name_of(directory, first) == "one two three"
    assert name_of(directory, second) == "1 two 3"


def test_tracebacks_show_the_lines_that_run(directory: Path) -> None:
    code = frozen(directory)
    name_of(directory, code)
    file = str(directory / "texts.py")
    (directory / "texts.py").write_text("something else\n")
    linecache.checkcache()
    assert linecache.getline(file, 1) == "WORD = 'one'\n"


def test_libraries_in_the_directory_are_not_part_of_the_code(directory: Path) -> None:
    libraries = directory / "env" / "site-packages"
    libraries.mkdir(parents=True)
    (libraries / "some_library.py").write_text("X = 1\n")
    (directory / "texts.py").write_text("import some_library\nWORD = 'one'\n")
    program = (
        "import sys; from pathlib import Path\n"
        "from wallaroo.loading.frozen_code import recorded\n"
        "from wallaroo.loading.loader import ApplicationRef\n"
        f"sys.path.append({str(libraries)!r})\n"
        f"with recorded(Path({str(directory)!r})) as files:\n"
        f"    ApplicationRef({str(directory)!r}).load()\n"
        "print(len(files), any('some_library' in file for file in files))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{len(FILES)} False\n", done.stderr
