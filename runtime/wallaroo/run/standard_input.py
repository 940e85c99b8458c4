"""Standard input as the messages of a source: each line is one."""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator

from wallaroo.client import Sender
from wallaroo.connectors.tcp.resolve import StandardInputSource
from wallaroo.errors import FrameError, RuntimeFailure, UsageError
from wallaroo.model.application import Application
from wallaroo.wire.refusals import guarded, refusal

_STREAM = "standard input"
"""Name of the acknowledged stream, whose numbers each run continues."""
_READ_BYTES = 65_536
_SHOWN_BYTES = 20
"""Bytes of a line that is too long in its dead letter, which must fit behind any header."""


def source_of(application: Application, *, secret: bool) -> StandardInputSource | None:
    """The source of *application* that reads standard input; None without one.

    Args:
        application: The application.
        secret: Whether its sources require TLS.

    Raises:
        UsageError: There are several, or it cannot be read.
    """
    found = [one for one in application.sources if isinstance(one, StandardInputSource)]
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
    if found and sys.__stdin__ is None:
        msg = f"source {found[0].name!r} reads standard input, which is closed"
        raise UsageError(msg)
    return found[0] if found else None


class NoInput:
    """Stands for standard input where no source reads it."""

    source: str | None = None
    """Name of the source that gets the lines."""
    ended = False
    """Whether no more lines will come, and all are accepted."""
    failure: str | None = None
    """Why no more lines are read although there may be; None if it did not fail."""

    def stop(self) -> None:
        """Read no more."""


class StandardInput(NoInput):
    """Sends the lines of standard input to a source, each accepted exactly once.

    A gateway that is killed meanwhile gets again what it had not accepted. What is too long becomes
    a dead letter.

    Args:
        source: The source.
        address: `HOST:PORT` where it listens.
        descriptor: File descriptor to read.
    """

    def __init__(self, source: StandardInputSource, address: str, descriptor: int = 0) -> None:
        self.source = source.name
        self._framing = source.framing
        self._stopping = False
        self._descriptor = os.dup(descriptor)
        self._sender = Sender(address, _STREAM, timeout_s=threading.TIMEOUT_MAX)
        # it may wait for a line for ever
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    def stop(self) -> None:
        """See `NoInput.stop`."""
        self._stopping = True
        self._sender.close()

    def _run(self) -> None:
        try:
            for number, line in enumerate(self._lines(), 1):
                payload = guarded(line.rstrip(b"\r"))
                if (problem := self._problem_of(payload)) is not None:
                    shown = f"line {number} of standard input {problem}"
                    shown = f"{shown}; it begins with {line[:_SHOWN_BYTES]!r}"
                    payload = refusal(shown)[: self._framing.max_frame]
                self._sender.send(payload)
            self._sender.flush()
            self.ended = True
        except (OSError, RuntimeFailure) as error:
            if not self._stopping:
                self.failure = f"standard input cannot be read: {error}"
        finally:
            os.close(self._descriptor)

    def _lines(self) -> Iterator[bytes]:
        """Lines without their line feeds; of one that is too long no more than shows that it is."""
        kept = self._framing.max_frame + 2
        line = b""
        # not by a file object, which reads on after the end that a terminal has reported
        while piece := os.read(self._descriptor, _READ_BYTES):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                yield line + end[: kept - len(line)]
                line = b""
            line += rest[: kept - len(line)]
        if line:
            yield line

    def _problem_of(self, payload: bytes) -> str | None:
        longest = self._framing.max_frame
        if len(payload) > longest:
            return f"has more than {longest:,} bytes: raise --max-frame"
        try:
            self._framing.frame(payload)
        except (struct.error, FrameError):
            return f"has {len(payload):,} bytes, which the header of the messages cannot hold"
        return None
