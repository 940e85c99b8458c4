"""Every error of the package, split by what the caller does next.

* `UsageError`: the command line or a setting is wrong; mend it and call again (exit code 2).
* `ApplicationError`: the application is wrong; mend its code (exit code 1).
* `FrameError`: one connection or file has bytes that are no frame; close it, nothing behind them
  can be read.
* `RuntimeFailure`: a part of a running application failed; start it again on the same state
  directory, which goes on where the last committed batch ended (exit code 1).
"""

from __future__ import annotations

from collections.abc import Sequence


class WallarooError(Exception):
    """Root of the package's errors; its message is for the person who runs the application."""

    exit_code = 1
    """Exit code of a command that ends with this error."""


class UsageError(WallarooError):
    """A command-line argument or a setting cannot be used as it is given."""

    exit_code = 2


class ApplicationError(WallarooError):
    """The application cannot be loaded or is not well formed.

    Attributes:
        problems: One sentence for each thing that is wrong, each with its place in user code.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__("\n  - ".join([message, *problems]))
        self.problems = tuple(problems)


class FrameError(WallarooError):
    """Bytes on a connection, or in a file, are not a frame that their source accepts."""


class WallarooParameterError(ValueError):
    """An argument of the API cannot be used as it is given; Wallaroo's own name for it."""


class RuntimeFailure(WallarooError):
    """A part of a running application (gateway, query) failed."""
