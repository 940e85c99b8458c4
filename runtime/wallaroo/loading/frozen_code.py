"""The source code of an application as of one moment, from which all processes of a run import.

Processes of a run import the application whenever they start, and its author may be in the middle
of a change then. With frozen code they import what was read once, whatever the files contain by
now; modules and tracebacks still name the files.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import linecache
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

_NOT_OURS = {"site-packages", "dist-packages"}
"""Directories of libraries, as of a virtual environment beside the application."""


@dataclass(frozen=True)
class FrozenCode:
    """Source files of an application."""

    directory: Path
    """Directory of the application."""
    files: Mapping[str, bytes]
    """Contents by path, of each file that the application imports from there."""

    def write(self, file: Path) -> None:
        """Write it to *file*, for `read`."""
        file.write_bytes(pickle.dumps((str(self.directory), dict(self.files))))

    @classmethod
    def read(cls, file: Path) -> FrozenCode:
        """What `write` wrote; only files of this run are read."""
        directory, files = pickle.loads(file.read_bytes())
        return cls(Path(directory), files)


@contextlib.contextmanager
def recorded(directory: Path) -> Iterator[dict[str, bytes]]:
    """Within the block, note each source file in *directory* that is imported, as it was read.

    Yields:
        Contents by path; filled by imports, also by one that fails.
    """
    finder = _Finder(directory, {}, reads=True)
    _install(finder)
    try:
        yield finder.files
    finally:
        finder.reads = False  # what is imported again later is the same code


def use(code: FrozenCode) -> None:
    """Import from *code* from now on, in this process; nothing that was imported changes."""
    _install(_Finder(code.directory, dict(code.files)))


def _install(finder: _Finder) -> None:
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
    sys.meta_path.insert(0, finder)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules in a directory of source code.

    Args:
        directory: The directory.
        files: Contents by path.
        reads: Whether to read the files, and to note their contents.
    """

    def __init__(self, directory: Path, files: dict[str, bytes], *, reads: bool = False) -> None:
        self._directory = directory
        self.files = files
        self.reads = reads

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        del target
        name = fullname.rpartition(".")[2]
        for entry in sys.path if path is None else path:
            place = Path(entry)
            if not self._is_ours(place):
                return None  # what is found there comes before the rest
            for file in (place / name / "__init__.py", place / f"{name}.py"):
                content = self._content(file)
                if content is not None:
                    return importlib.util.spec_from_file_location(
                        fullname,
                        file,
                        loader=_Loader(fullname, str(file), content),
                        submodule_search_locations=(
                            [str(file.parent)] if file.stem == "__init__" else None
                        ),
                    )
        return None

    def _is_ours(self, place: Path) -> bool:
        if not place.is_relative_to(self._directory):
            return False
        return _NOT_OURS.isdisjoint(place.relative_to(self._directory).parts)

    def _content(self, file: Path) -> bytes | None:
        if self.reads:
            with contextlib.suppress(OSError):
                self.files[str(file)] = file.read_bytes()
        return self.files.get(str(file))


class _Loader(SourceFileLoader):
    """Loads a module from *content*, without a cache of compiled code.

    Args:
        fullname: Name of the module.
        path: Its file.
        content: Its source code.
    """

    def __init__(self, fullname: str, path: str, content: bytes) -> None:
        super().__init__(fullname, path)
        self._content = content

    def get_data(self, path: str) -> bytes:
        """See `SourceFileLoader.get_data`."""
        return self._content if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """See `SourceFileLoader.get_code`."""
        code: CodeType = self.source_to_code(self._content, self.path)
        # tracebacks show these lines: an entry without a time is not compared with the file
        lines = importlib.util.decode_source(self._content).splitlines(keepends=True)
        linecache.cache[self.path] = (len(self._content), None, lines, self.path)
        return code
