"""Standard input as the messages of a source: each line is one."""

from __future__ import annotations

import os
import struct
import threading

import structlog

from wallaroo.client import Sender
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.errors import FrameError, RuntimeFailure, UsageError
from wallaroo.model.application import Application

_STREAM = "standard input"
"""Name of the acknowledged stream, whose numbers each run continues."""

log = structlog.get_logger("wallaroo")


def source_of(application: Application, *, secret: bool) -> TCPSource | None:
    """The source of *application* that reads standard input; None without one.

    Args:
        application: The application.
        secret: Whether its sources require TLS.

    Raises:
        UsageError: There are several, or it cannot be read.
    """
    sources = [one for one in application.sources if isinstance(one, TCPSource)]
    found = [source for source in sources if source.is_standard]
    if len(found) > 1:
        names = " and ".join(repr(source.name) for source in found)
        msg = f"the sources {names} read standard input; give all but one of them an address"
        raise UsageError(msg)
    if found and secret:
        msg = (
            f"source {found[0].name!r} reads standard input, which cannot be combined with TLS for "
            "sources: give it an address, or omit the options for TLS"
        )
        raise UsageError(msg)
    return found[0] if found else None


class StandardInput:
    """Sends the lines of standard input to a source, each accepted exactly once.

    A gateway that is killed meanwhile gets again what it had not accepted.

    Args:
        source: The source.
        address: `HOST:PORT` where it listens.
        descriptor: File descriptor to read.
    """

    def __init__(self, source: TCPSource, address: str, descriptor: int = 0) -> None:
        self.source = source.name
        self.ended = False
        """Whether no more lines will come, and all are accepted."""
        self.failure: str | None = None
        """Why no more lines are read although there may be; None if it did not fail."""
        self._framing = source.framing
        self._lines = 0
        """Lines that were read."""
        self._stopping = False
        self._file = os.fdopen(os.dup(descriptor), "rb")
        self._sender = Sender(address, _STREAM, timeout_s=threading.TIMEOUT_MAX)
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        self._stopping = True
        self._sender.close()

    def _run(self) -> None:
        try:
            with self._file:
                self._send_all()
            self.ended = True
        except (OSError, RuntimeFailure) as error:
            if not self._stopping:
                self.failure = f"standard input cannot be read: {error}"

    def _send_all(self) -> None:
        longest = self._framing.max_frame
        while line := self._file.readline(longest + 2):
            self._lines += 1
            payload = line.rstrip(b"\r\n")
            while line and not line.endswith(b"\n"):  # the rest of a line that is too long
                line = self._file.readline(longest)
            if (problem := self._problem_of(payload)) is None:
                self._sender.send(payload)
            else:
                log.error("line not sent", line=self._lines, reason=problem)
        self._sender.flush()

    def _problem_of(self, payload: bytes) -> str | None:
        longest = self._framing.max_frame
        if len(payload) > longest:
            return f"it has more than {longest:,} bytes: raise --max-frame"
        try:
            self._framing.frame(payload)
        except (struct.error, FrameError) as error:
            return f"the header of the source's messages cannot hold its length: {error}"
        return None
