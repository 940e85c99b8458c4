"""Targets of `wallaroo replay`: for each sink a file, or a receiver that takes its place."""

from __future__ import annotations

import contextlib
import itertools
import re
import select
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from wallaroo.api.addresses import Address
from wallaroo.connectors.tcp.receiver import check_intact, unacknowledged
from wallaroo.connectors.tcp.resolve import TCPSink
from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Sink
from wallaroo.run.settings import host_and_port
from wallaroo.system.binding import unresolved
from wallaroo.system.printable import counted
from wallaroo.wire.numbered import NUMBER, sequenced

_CONNECT_TIMEOUT_S = 10.0
_SILENCE_S = 30.0
"""A receiver that takes nothing for this long is given up."""
_ACK_POLL_S = 0.005
"""Pause between looks at what was acknowledged, at the end."""
_PIECE_BYTES = 64 * 1024
"""Bytes that are sent at once."""


class Target(ABC):
    """What gets the outputs of a sink."""

    count = 0
    """How many it has got."""

    def take(self, output: bytes) -> None:
        """Take the next output.

        Raises:
            RuntimeFailure: Its receiver does not take it.
        """
        self.count += 1
        self._take(output)

    @property
    @abstractmethod
    def summary(self) -> str:
        """How many it has got, and where they are."""

    @abstractmethod
    def _take(self, output: bytes) -> None: ...

    def finish(self) -> None:  # noqa: B027  (a file is closed by what has opened it)
        """Wait until its receiver has everything.

        Raises:
            RuntimeFailure: That is not so.
        """


class _File(Target):
    """A file: outputs that are separate messages get a line each."""

    def __init__(self, sink: Sink, file: IO[bytes]) -> None:
        self._file, self._joins = file, sink.joins_outputs

    @property
    def summary(self) -> str:
        return f"{counted(self.count, 'output')} in {self._file.name}"

    def _take(self, output: bytes) -> None:
        ends = self._joins or output.endswith(b"\n")
        self._file.write(output if ends else output + b"\n")


class _LeftOut(Target):
    """Nothing."""

    def __init__(self, sink: Sink) -> None:
        self._name = sink.name

    @property
    def summary(self) -> str:
        left = f"{counted(self.count, 'output')} of sink {self._name!r} left out"
        return f"{left}: it has no --to, and there is no DIRECTORY"

    def _take(self, output: bytes) -> None:
        pass


class _Receiver(Target):
    """A receiver, which gets outputs as from the sink; those of a numbered one from 1 on again.

    Args:
        sink: The sink.
        to: Address of the receiver.

    Raises:
        RuntimeFailure: It cannot be reached.
    """

    def __init__(self, sink: TCPSink, to: Address) -> None:
        self._name, self._sequenced = sink.name, sink.sequenced
        self._address = host_and_port(to)
        try:
            self._connection = socket.create_connection((to.host, int(to.port)), _CONNECT_TIMEOUT_S)
        except OSError as error:
            refused = f"{reason_of(error)}; is the receiver listening?"
            problem = unresolved(error, to.host, "--to") or refused
            msg = f"sink {sink.name!r}: cannot connect to {self._address}: {problem}"
            raise RuntimeFailure(msg) from error
        self._connection.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._connection)
        self._hears = select.POLLIN
        self._unsent, self._answers, self._answered = bytearray(), b"", 0
        if self._sequenced:  # numbered separately: what was sent before is not repeated
            self._unsent += sequenced(0, [f"replay/{uuid.uuid4().hex}".encode()])

    @property
    def summary(self) -> str:
        return f"{counted(self.count, 'output')} of sink {self._name!r} sent to {self._address}"

    def close(self) -> None:
        self._connection.close()

    def _take(self, output: bytes) -> None:
        self._unsent += sequenced(self.count, [output]) if self._sequenced else output
        if len(self._unsent) >= _PIECE_BYTES:
            with self._telling():
                self._send()

    def finish(self) -> None:
        with self._telling():
            self._send()
            if self._sequenced:
                while self._answered < self.count:
                    self._wait(0)
                return
            self._connection.shutdown(socket.SHUT_WR)
            before, give_up = 0, 0.0
            while left := self._unacknowledged():
                if left != before:
                    before, give_up = left, time.monotonic() + _SILENCE_S
                if time.monotonic() >= give_up:
                    raise TimeoutError
                time.sleep(_ACK_POLL_S)
                self._look(0, 0.0)

    def _send(self) -> None:
        """Send what is not sent."""
        unsent, self._unsent = memoryview(self._unsent), bytearray()
        while unsent:
            if self._wait(select.POLLOUT) & select.POLLOUT:
                unsent = unsent[self._connection.send(unsent) :]

    def _wait(self, wanted: int) -> int:
        """Wait until there is one of the events *wanted*, or the receiver has sent something."""
        if not (found := self._look(wanted, _SILENCE_S)):
            raise TimeoutError
        return found

    def _look(self, wanted: int, within_s: float) -> int:
        """The events that there are within a time; what the receiver has sent is read."""
        self._poll.modify(self._connection, wanted | self._hears)
        found = sum(events for _, events in self._poll.poll(within_s * 1000))
        if found & ~select.POLLOUT:
            with contextlib.suppress(BlockingIOError):
                self._hear(self._connection.recv(_PIECE_BYTES))
        return found

    def _hear(self, data: bytes) -> None:
        """Take what the receiver has sent; without *data*, it sends no more, but may still read."""
        if not self._sequenced:
            self._hears = self._hears if data else 0
            return
        if not data:
            raise ConnectionResetError
        self._answers += data
        if whole := len(self._answers) // NUMBER.size * NUMBER.size:
            (self._answered,) = NUMBER.unpack_from(self._answers, whole - NUMBER.size)
            self._answers = self._answers[whole:]

    def _unacknowledged(self) -> int:
        """Bytes that the receiver's side does not have yet."""
        check_intact(self._connection)
        return unacknowledged(self._connection)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Say of which sink and address an error is."""
        try:
            yield
        except TimeoutError as error:
            if self._sequenced and not self._unsent:
                has = f"has acknowledged {self._answered:,} of {counted(self.count, 'output')}, and"
            else:
                has = "has read"
            msg = f"sink {self._name!r}: {self._address} {has} nothing for {_SILENCE_S:g} s"
            raise RuntimeFailure(msg) from error
        except OSError as error:
            lost = (
                f"closed the connection, and may lack the last of {counted(self.count, 'output')}"
            )
            msg = f"sink {self._name!r}: {self._address} {lost}"
            raise RuntimeFailure(msg) from error


@contextlib.contextmanager
def targets(
    application: Application, directory: Path | None, to: Sequence[Address]
) -> Iterator[dict[str, Target]]:
    """The target of each sink, by its name; files are removed if the block fails.

    Args:
        application: The application.
        directory: Where sinks have files that have no receiver; None for nowhere.
        to: Addresses of receivers, with the name of their sink if there are several sinks.

    Raises:
        UsageError: An address is of no sink, or files cannot be made.
        RuntimeFailure: A receiver cannot be reached.
    """
    receivers = _receivers(application, to)
    left = [sink for sink in application.output_sinks if sink.name not in receivers]
    if directory is None and not receivers:
        msg = "name a DIRECTORY for files, or the address of a receiver with --to"
        raise UsageError(msg)
    if directory is not None and not left:
        msg = "every sink has a --to, so that nothing is left for DIRECTORY: omit it"
        raise UsageError(msg)
    with contextlib.ExitStack() as opened:
        files = {} if directory is None else opened.enter_context(_files(left, directory))
        found: dict[str, Target] = {}
        for sink in application.output_sinks:
            if sink.name in receivers:
                receiver = _Receiver(*receivers[sink.name])
                opened.callback(receiver.close)
                found[sink.name] = receiver
            elif sink.name in files:
                found[sink.name] = _File(sink, files[sink.name])
            else:
                found[sink.name] = _LeftOut(sink)
        yield found


def _receivers(
    application: Application, to: Sequence[Address]
) -> dict[str, tuple[TCPSink, Address]]:
    """The sinks that have receivers, by name.

    Raises:
        UsageError: An address is not of one of the sinks.
    """
    sinks = {sink.name: sink for sink in application.output_sinks if isinstance(sink, TCPSink)}
    names = ", ".join(map(repr, sinks)) or "none"
    found: dict[str, tuple[TCPSink, Address]] = {}
    for address in to:
        name = address.name
        if name is None and len(sinks) == 1:
            (name,) = sinks
        where = f"--to {host_and_port(address)}"
        if name is None or name not in sinks:
            unknown = f"there is no sink {name!r} of this kind"
            problem = "name the sink, as SINK@HOST:PORT" if name is None else unknown
            msg = f"{where}: {problem}; sinks that send over TCP: {names}"
            raise UsageError(msg)
        if name in found:
            msg = f"{where}: sink {name!r} has another --to"
            raise UsageError(msg)
        found[name] = sinks[name], address
    return found


@contextlib.contextmanager
def _files(sinks: Sequence[Sink], directory: Path) -> Iterator[dict[str, IO[bytes]]]:
    """A file for each sink; what was made is removed if the block fails.

    Raises:
        UsageError: They cannot be made.
    """
    file: IO[bytes]
    files: dict[str, IO[bytes]] = {}
    with contextlib.ExitStack() as made:
        try:
            if not directory.exists():
                directory.mkdir()
                made.callback(directory.rmdir)
            if any(directory.iterdir()):
                msg = f"{directory} is not empty"
                raise UsageError(msg)
            for sink in sinks:
                path = _file_of(sink.name, directory)
                files[sink.name] = file = path.open("xb")
                made.callback(path.unlink)
                made.callback(file.close)
        except OSError as error:
            msg = f"{directory} cannot be written: {reason_of(error)}"
            raise UsageError(msg) from error
        yield files
        for file in files.values():
            file.close()
        made.pop_all()


def _file_of(sink: str, directory: Path) -> Path:
    """A file that is not there yet, named after *sink*."""
    name = re.sub(r"[^\w.-]+", "-", sink).strip("-.") or "outputs"
    others = (directory / f"{name}-{number}" for number in itertools.count(2))
    return next(file for file in itertools.chain([directory / name], others) if not file.exists())
