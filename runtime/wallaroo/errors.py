"""All errors of the package, grouped by how the caller should respond.

* `UsageError`: the command line or a setting is invalid; correct it and try again (exit code 2).
* `ApplicationError`: the application is invalid; fix its code (exit code 1).
* `FrameError`: a connection or file contains bytes that are not a valid frame; close it, because
  nothing after them can be read.
* `RuntimeFailure`: a part of a running application failed; restart it on the same state directory
  to resume after the last published chunk (exit code 1). `DamagedFile` is one that a restart does
  not help against.
"""

from __future__ import annotations

from collections.abc import Sequence


class WallarooError(Exception):
    """Base class of the package's errors; the message is written for the operator."""

    exit_code = 1
    """Exit code of a command that fails with this error."""


class UsageError(WallarooError):
    """A command-line argument or a setting is invalid."""

    exit_code = 2


class ApplicationError(WallarooError):
    """The application cannot be loaded or is invalid.

    Attributes:
        problems: One sentence per problem, each with its location in user code.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__("\n  - ".join([message, *problems]))
        self.problems = tuple(problems)


class FrameError(WallarooError):
    """Bytes on a connection or in a file are not a frame that the source accepts."""


class WallarooParameterError(ValueError):
    """An argument of the API is invalid; the name of this error is Wallaroo's."""


class RuntimeFailure(WallarooError):
    """A part of a running application (gateway, query) failed."""


class DamagedFile(RuntimeFailure):
    """A file does not contain what was written to it.

    The message names the file, what is wrong with it, and what to do.
    """


class OtherVersion(RuntimeFailure):
    """A worker runs another version of the runtime than its driver."""


def reason_of(error: Exception) -> str:
    """Return what is wrong according to *error*, without the number and the file of an `OSError`.

    Example:
        >>> reason_of(FileNotFoundError(2, "No such file or directory", "trade.avsc"))
        'No such file or directory'
        >>> reason_of(ValueError("it is not UTF-8"))
        'it is not UTF-8'
    """
    return getattr(error, "strerror", None) or str(error)


ACCEPT = "--accept-lost-journal"
"""Option that lets an application resume without what a log had, or with repeated outputs."""
SKIP = "--skip-damaged"
"""Option that lets an application resume without damaged messages and outputs."""
SKIP_LOST = "start once with --on-lost skip, or set on_lost='skip' in the code"
"""What to do to continue with what a topic, file, directory or database has not lost."""
RESTORE = "restore the log and the checkpoint from copies made at the same time"
"""What to do about a damaged file that nothing else can replace."""


def damaged(file: object, problem: object) -> DamagedFile:
    """Return the error that *file*, which only a copy can replace, has a *problem*.

    Example:
        >>> str(damaged("offsets/7", "it is missing")).partition("; ")[0]
        'offsets/7 is damaged: it is missing'
    """
    return DamagedFile(f"{file} is damaged: {problem}; {RESTORE}")
