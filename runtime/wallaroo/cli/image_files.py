"""The files of an application that go into its image, and those that are left out."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from wallaroo.errors import UsageError, reason_of
from wallaroo.system.printable import printable

IGNORE_FILE = ".dockerignore"
CACHES = (
    "__pycache__",
    ".git",
    ".venv",
    ".wallaroo",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
)
"""Names of directories that are left out silently."""
SECRETS = (
    *("**/.env", "**/.env.*", "!**/.env.example", "!**/.env.sample", "!**/.env.template"),
    *("**/*.key", "**/*.token", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore"),
    *("**/.netrc", "**/.pgpass", "**/.pypirc", "**/.git-credentials"),
    *("**/.aws", "**/.kube", "**/.ssh"),
)
"""Files that are secret by their names, as lines of a .dockerignore."""
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_SEARCHED_BYTES = 1024 * 1024
"""Length of the longest file that is searched for a private key."""
_MOST_SHOWN = 20

SECRET = f"secret; a line such as !NAME in {IGNORE_FILE} keeps one"
NAMED = "named as secret by the application, or by a variable"
IGNORED = f"by {IGNORE_FILE}"
LINKED = "links that lead nowhere, or out of the directory"
OTHER = "neither files nor directories"


class Patterns:
    """Lines of a .dockerignore, of which the last one that matches a path decides.

    Example:
        >>> patterns = Patterns(["# data", "**/*.csv", "!small.csv", "/notes"])
        >>> [patterns.verdict(path) for path in ("a/b.csv", "small.csv", "notes/x", "a/notes")]
        [True, False, True, None]
    """

    def __init__(self, lines: Collection[str]) -> None:
        self._rules = list(_rules(lines))

    def verdict(self, path: str) -> bool | None:
        """Whether *path* is left out, itself or with its directory; None if no line matches."""
        upwards = [path]
        while parent := posixpath.dirname(upwards[-1]):
            upwards.append(parent)
        for kept, rule in reversed(self._rules):
            if any(map(rule.fullmatch, upwards)):
                return not kept
        return None

    @property
    def keeps(self) -> bool:
        """Whether files can be kept whose directory is left out."""
        return any(kept for kept, _ in self._rules)


def _rules(lines: Collection[str]) -> Iterator[tuple[bool, re.Pattern[str]]]:
    """Of each line, whether it keeps what it matches, and what that is."""
    for number, line in enumerate(lines, 1):
        pattern = "" if line.startswith("#") else line.strip()
        kept = pattern.startswith("!")
        pattern = pattern.removeprefix("!").strip()
        if not pattern:
            continue
        try:
            yield kept, re.compile(_expression(posixpath.normpath(pattern).strip("/")), re.DOTALL)
        except re.error as error:
            msg = f"line {number} of {IGNORE_FILE} is no pattern: {line!r} ({error.msg})"
            raise UsageError(msg) from error


_PARTS = re.compile(
    r"(?P<directories>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|(?P<set>\[[^\]]+\])"
    r"|\\(?P<quoted>.)|(?P<text>.)",
    re.DOTALL,
)


def _expression(pattern: str) -> str:
    r"""The regular expression of a *pattern* of Docker's.

    Example:
        >>> _expression("**/a?.[^x]*")
        '(?:.*/)?a[^/]\\.[^x][^/]*'
    """
    fixed = {"directories": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
    pieces = []
    for part in _PARTS.finditer(pattern):
        kind, text = part.lastgroup or "", part[part.lastgroup or 0]
        pieces.append(fixed.get(kind) or (text if kind == "set" else re.escape(text)))
    return "".join(pieces)


class ImageFiles:
    """Selects the files of an application.

    Args:
        directory: The application's directory.
        secrets: Files that the application names as secret.

    Raises:
        UsageError: Its .dockerignore cannot be read.
    """

    def __init__(self, directory: Path, secrets: Collection[Path] = ()) -> None:
        self._root = directory.resolve()
        self._named = {self._root / secret.resolve() for secret in secrets}
        self._secret = Patterns(SECRETS)
        self._ignored = Patterns(_lines(self._root / IGNORE_FILE))
        self._left_out: dict[str, list[str]] = {}

    def copy(self, target: Path) -> None:
        """Copy the selected files to the directory *target*."""
        self._copy("", target)

    def report(self) -> Iterator[str]:
        """What was left out: a line for each reason."""
        for reason, paths in self._left_out.items():
            shown = ", ".join(map(printable, paths[:_MOST_SHOWN]))
            more = f" and {len(paths) - _MOST_SHOWN} more" if len(paths) > _MOST_SHOWN else ""
            yield f"left out of the image ({reason}): {shown}{more}"

    def _copy(self, directory: str, target: Path) -> None:
        target.mkdir(exist_ok=True)
        for entry in sorted(os.scandir(self._root / directory), key=lambda entry: entry.name):
            if entry.name in CACHES:
                continue
            path, is_directory = f"{directory}{entry.name}", entry.is_dir(follow_symlinks=False)
            reason = self._reason(path)
            if reason is not None and not (is_directory and self._ignored.keeps):
                self._left_out.setdefault(reason, []).append(path)
            elif is_directory:
                self._copy(f"{path}/", target / entry.name)
            elif entry.is_symlink():
                self._copy_link(path, target / entry.name)
            else:
                shutil.copy2(entry.path, target / entry.name)

    def _copy_link(self, path: str, target: Path) -> None:
        """Copy a link as one that leads to the same place in *target*'s tree."""
        there = (self._root / path).resolve()
        relative = os.path.relpath(there, (self._root / path).parent.resolve())
        target.symlink_to(relative)

    def _reason(self, path: str) -> str | None:
        """Why *path* is left out; None if it is not."""
        file = self._root / path
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            return self._reason_of_link(file)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return OTHER
        if file in self._named:
            return NAMED
        ignored = self._ignored.verdict(path)
        if ignored is not None:
            return IGNORED if ignored else None
        secret = self._secret.verdict(path)
        if secret or (secret is None and stat.S_ISREG(mode) and _has_private_key(file)):
            return SECRET
        return None

    def _reason_of_link(self, file: Path) -> str | None:
        """Why a link is left out: for its own name, or that of what it leads to."""
        path = file.relative_to(self._root).as_posix()
        if self._ignored.verdict(path):
            return IGNORED
        there = file.resolve()
        if not there.exists() or not there.is_relative_to(self._root):
            return LINKED
        inside = there.relative_to(self._root)
        if there == self._root:
            return None
        if set(inside.parts) & set(CACHES):
            return LINKED
        return self._reason(inside.as_posix())


def _lines(file: Path) -> list[str]:
    """The lines of a .dockerignore; none if there is no such file."""
    try:
        return file.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as error:
        msg = f"{file} cannot be read: {reason_of(error)}"
        raise UsageError(msg) from error


def _has_private_key(file: Path) -> bool:
    if file.stat().st_size > _SEARCHED_BYTES:
        return False
    return _PRIVATE_KEY.search(file.read_bytes()) is not None
