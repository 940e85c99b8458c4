"""Paths of objects on an object store, which modules read and write like files of this machine."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Self, TypeGuard, TypeVar

import structlog

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.binding import MAX_PORT
from wallaroo.system.store_errors import CHANGED, failure_of

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo, S3FileSystem

SCHEME = "s3a://"
"""How the location of an object begins, as Hadoop writes it."""
_LOCATION = re.compile(r"s3a:/(/[a-z0-9][a-z0-9.-]+(?:/[A-Za-z0-9_~+=@,-][A-Za-z0-9._~+=@,-]*)+)/?")
_ENDPOINT = re.compile(r"https?://(\[[0-9a-fA-F:]+\]|[^/@?#:\[\]]+)(?::([0-9]{1,5}))?/?")
_PIECE = 8 * 1024**2
_READ_BYTES = 1024**2
"""Bytes that a request reads of an open object, unless its reader says how many."""
_PARTS = ".parts"
"""Folder with the objects that are not whole yet, beside those that they become."""
_ATTEMPTS, _REQUEST_S = 5, 30.0
"""Attempts of a request, and seconds until one counts as failed."""
_UNREAD = "Failed to flush response stream"
"""What the SDK says, once, if the store refuses to read an object that is shorter than the refusal:
pyarrow gives it no room for that, so it does not see that it should try again."""
_PAUSE_S = 0.1
"""Seconds before such a request is repeated for the first time; twice as long each time."""
_CHECK_S = 5.0
"""The latter for checks, which are repeated."""
_TELL_S = 10.0
"""Seconds after which it is logged that a call waits; with all attempts, it may for minutes."""

_T = TypeVar("_T")

log = structlog.get_logger("wallaroo")


class ObjectPath(PosixPath):
    """The path of an object, or of a folder of objects; what a path of a disk can do besides fails.

    An object is replaced as a whole, and is durable when that returns. Folders need not be made.

    Example:
        >>> state = ObjectPath.at("s3a://bucket/votes/")
        >>> str(state), str(state / "checkpoint"), (state / "offsets" / "7").name
        ('s3a://bucket/votes', 's3a://bucket/votes/checkpoint', '7')
        >>> open(state)
        Traceback (most recent call last):
        ...
        wallaroo.errors.UsageError: s3a://bucket/votes is on an object store: give a path of a disk
    """

    @classmethod
    def at(cls, location: str) -> Self:
        """The path of *location*.

        Raises:
            UsageError: It is not `s3a://BUCKET/FOLDER`.
        """
        if (found := _LOCATION.fullmatch(location)) is None:
            msg = (
                f"{location!r} is not s3a://BUCKET/FOLDER: a bucket's name has lower case letters, "
                "digits, - and ., that of a folder letters, digits and any of ._~+=@,-"
            )
            raise UsageError(msg)
        return cls(found[1])

    def __str__(self) -> str:
        text = super().__str__()
        return f"s3a:/{text}" if text.startswith("/") else text

    def __fspath__(self) -> NoReturn:
        """Refuse to be a file of this machine."""
        msg = f"{self} is on an object store: give a path of a disk"
        raise UsageError(msg)

    def resolve(self, strict: bool = False) -> Self:  # noqa: ARG002
        """Itself."""
        return self

    def mkdir(self, *_: Any, **_options: Any) -> None:
        """Do nothing: an object needs no folder."""

    def exists(self, **_: Any) -> bool:
        """Whether there is such an object, or one below it."""
        return self._info() is not None

    def is_dir(self, **_: Any) -> bool:
        """Whether there are objects below it."""
        return (info := self._info()) is not None and not info.is_file

    def stat(self, **_: Any) -> os.stat_result:
        """Size and time of the object; nothing else is set."""
        if (info := self._info()) is None:
            raise FileNotFoundError(2, "No such object", str(self))
        return _stat_of(info)

    def open(self, mode: str = "r", buffering: int = -1, *_: Any, **_options: Any) -> Any:  # noqa: ARG002
        """Open the object to read its bytes, *buffering* of them with each request."""
        opened = self.asked(lambda: filesystem().open_input_file(self.key))
        return io.BufferedReader(_Opened(self, opened), max(buffering, 0) or _READ_BYTES)

    def read_bytes(self) -> bytes:
        """The content of the object."""
        return self.asked(lambda: _content(filesystem(), self.key))

    def read_text(self, *_: Any, **_options: Any) -> str:
        """The content of the object, as text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: Any) -> int:
        """Replace the object; it has its previous content if that fails.

        Longer data than some MiB is for `write_from`.
        """
        self.asked(lambda: _replace(filesystem(), self.key, data))
        return len(data)

    def write_text(self, data: str, *_: Any, **_options: Any) -> int:
        """Replace the object."""
        return self.write_bytes(data.encode())

    def write_from(self, source: BinaryIO) -> None:
        """Replace the object by what is in a file, from its position on, however much that is.

        It is written under another name first: a long object is sent in parts, and if one fails,
        the stream makes an object of those before. Of two that write it at once, one may fail.

        Raises:
            RuntimeFailure: The store refuses a request, or does not answer. The object has its
                previous content.
        """
        for left in (self.parent / _PARTS).glob(f"{self.name}-*"):  # a kill has cut it short
            left.unlink(missing_ok=True)
        part, size = self.parent / _PARTS / f"{self.name}-{os.urandom(8).hex()}", 0
        opened: NativeFile = self.asked(
            lambda: filesystem().open_output_stream(part.key, compression=None)
        )
        try:
            while piece := source.read(_PIECE):
                size += self.asked(partial(opened.write, piece))
        finally:
            self.asked(opened.close)
        self.asked(lambda: filesystem().move(part.key, self.key))
        if (found := self.stat().st_size) != size:
            msg = f"{self} has {found:,} bytes after {size:,} were written"
            raise RuntimeFailure(msg)

    def check_store(self) -> None:
        """Write the object and read it, in one attempt each, to see whether the store serves.

        Raises:
            RuntimeFailure: It does not, or not within some seconds.
        """
        store = filesystem(_CHECK_S, 1)
        content = b"written and read to see whether the store serves"
        self.asked(lambda: _replace(store, self.key, content))
        self.asked(lambda: _content(store, self.key))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        with contextlib.suppress(*[FileNotFoundError] * missing_ok):
            self.asked(lambda: filesystem().delete_file(self.key))

    def iterdir(self) -> Generator[Self]:
        """What is directly below."""
        yield from self.glob("*")

    def glob(self, pattern: Any, **_: Any) -> Generator[Self]:
        """What is below, and matches a *pattern* without `**`."""
        wanted, start = str(pattern).split("/"), self
        while len(wanted) > 1 and not set(wanted[0]) & set("*?["):
            start = start / wanted.pop(0)
        for names, _info in _below(start, recursive=len(wanted) > 1):
            if len(names) == len(wanted) and all(map(fnmatchcase, names, wanted)):
                yield start.joinpath(*names)

    def files(self) -> Iterator[tuple[Self, os.stat_result]]:
        """All objects below, in order of their names, each with what `stat` would return."""
        for names, info in _below(self, recursive=True):
            if info.is_file:
                yield self.joinpath(*names), _stat_of(info)

    @property
    def key(self) -> str:
        """Bucket and name, as the store knows it."""
        return str(self).removeprefix(SCHEME)

    def _info(self) -> FileInfo | None:
        """What there is; None if there is nothing."""
        info: FileInfo = self.asked(lambda: filesystem().get_file_info(self.key))
        return None if info.type.name == "NotFound" else info

    def asked(self, request: Callable[[], _T]) -> _T:
        """What the store answers to *request*, which Ctrl-C does not wait for.

        Failures of the store are raised as what they are, and not as damage to a file.

        Raises:
            DamagedFile: The object does not match its checksum.
            FileNotFoundError: There is no such object.
            RuntimeFailure: The store refuses the request, or does not answer.
        """
        answer = Future[_T]()

        def ask() -> None:
            try:
                answer.set_result(_repeated(request))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=ask, name="object store", daemon=True).start()
        try:
            if not wait([answer], _TELL_S).done:
                self._tell()
            return answer.result()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failure_of(str(self), str(error), endpoint()) from error
        except KeyboardInterrupt:
            atexit.register(_leave, answer)
            raise

    def _tell(self) -> None:
        """Log that the store has not answered yet."""
        url = endpoint()
        store = {} if url is None else {"store": url}
        log.warning("waiting for the object store", path=str(self), **store, so_far_s=_TELL_S)


class _Opened(io.RawIOBase):
    """An open object, whose failures are raised as those of other calls."""

    def __init__(self, path: ObjectPath, opened: NativeFile) -> None:
        self._path, self._file = path, opened

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # the request outlives Ctrl-C, and must not write to a buffer that has been freed
        found = self._path.asked(lambda: self._file.read(len(buffer)))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def close(self) -> None:
        self._file.close()
        super().close()


def _stat_of(info: FileInfo) -> os.stat_result:
    return os.stat_result((*[0] * 6, info.size or 0, *[info.mtime.timestamp()] * 3))


def _repeated(request: Callable[[], _T]) -> _T:
    for attempt in range(_ATTEMPTS - 1):
        try:
            return request()
        except OSError as error:
            if not any(sign in str(error) for sign in (_UNREAD, CHANGED)):
                raise
            time.sleep(_PAUSE_S * 2**attempt)
    return request()


def _below(folder: ObjectPath, *, recursive: bool) -> Iterator[tuple[list[str], FileInfo]]:
    """What is below *folder*, in order: the names on the way to it, and what the store says."""
    from pyarrow.fs import FileSelector

    # whether it may be missing is not left to pyarrow, for which the bucket may be, too
    below = FileSelector(folder.key, recursive=recursive)
    found: list[FileInfo] = []
    with contextlib.suppress(FileNotFoundError):
        found = folder.asked(lambda: filesystem().get_file_info(below))
    for info in sorted(found, key=lambda info: info.path):
        yield info.path.removeprefix(f"{folder.key}/").split("/"), info


def _content(store: S3FileSystem, key: str) -> bytes:
    with store.open_input_stream(key, compression=None) as opened:
        return bytes(opened.read())


def _replace(store: S3FileSystem, key: str, data: Any) -> None:
    with store.open_output_stream(key, compression=None) as opened:
        opened.write(data)


def _leave(answer: Future[Any]) -> None:
    """End the process after Ctrl-C: pyarrow would wait for *answer*, for minutes."""
    if not answer.done():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(128 + signal.SIGINT)


@lru_cache
def filesystem(request_s: float = _REQUEST_S, attempts: int = _ATTEMPTS) -> S3FileSystem:
    """The object store that the environment names, with credentials that the SDK of AWS finds.

    Args:
        request_s: Seconds until a request counts as failed; a process does not end before.
        attempts: Attempts of a request.

    Raises:
        UsageError: The environment names a store that cannot be meant.
    """
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    options: dict[str, Any] = {}
    if (url := endpoint()) is not None:
        options["scheme"], _, options["endpoint_override"] = url.partition("://")
    if (name := region()) is not None:
        options["region"] = name
    return S3FileSystem(
        **options,
        allow_delayed_open=True,  # a small object takes one request
        background_writes=False,
        connect_timeout=request_s,
        request_timeout=request_s,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts),
    )


def endpoint() -> str | None:
    """The URL of the store that the environment names; None for that of AWS.

    Raises:
        UsageError: It is not the URL of a server.
    """
    name = next(filter(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")), "")
    url = os.environ.get(name)
    if not url:
        return None
    if (found := _ENDPOINT.fullmatch(url)) is None:  # it may contain a password
        msg = f"the environment variable {name} is not http://HOST:PORT or https://HOST:PORT"
        raise UsageError(msg)
    if int(found[2] or 0) > MAX_PORT:
        msg = f"the environment variable {name} has an invalid port; the maximum is {MAX_PORT}"
        raise UsageError(msg)
    return url.rstrip("/")


def region() -> str | None:
    """The region that the environment names; None if it is to be found."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return named or (None if endpoint() is None else "us-east-1")


@contextlib.contextmanager
def on_disk(file: Path) -> Iterator[Path]:
    """Yield *file*, or a temporary copy of an object."""
    if not is_stored(file):
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="wallaroo-") as copy:
        with file.open("rb") as opened:
            shutil.copyfileobj(opened, copy, _PIECE)
        copy.flush()
        yield Path(copy.name)


def is_stored(place: Path | None) -> TypeGuard[ObjectPath]:
    """Whether *place* is on an object store; None is a directory."""
    return isinstance(place, ObjectPath)
