"""Times of messages, found in separate processes.

To read sources in the order of time, the gateway needs the decoder and a function of the
application, which may block or kill their process on a message, or take its memory. A process that
is forked before the gateway has threads or files forks one for each source. If that ends, or hangs,
it is replaced, and the message has no time. It is processed like any other, and becomes a dead
letter if it fails there, too.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NoReturn

import structlog

from wallaroo.api.places import place_of
from wallaroo.gateway.connector import Times
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Source
from wallaroo.model.order import AHEAD_BYTES, AHEAD_MESSAGES, sources_in_order, time_function
from wallaroo.observability.logs import Repeats
from wallaroo.system.lifeline import die_with_parent, fork_group, kill_group
from wallaroo.system.memory import limited, to_be_killed_first
from wallaroo.user_code.callers import call_at
from wallaroo.user_code.exceptions import describe_error

_exit, _getpid = os._exit, os.getpid  # user code may replace them
_INDEX, _NUMBER = struct.Struct("=I"), struct.Struct("=I")
_PROGRESS, _WAITS = struct.Struct("=II"), _NUMBER.size
"""Number of the message that is worked on, within a request, and how often it was seen that no code
of the application ran, such as while a decoder waits for its registry; the place of the latter."""
_POLL_S = 0.5
_CHECKS = 4
"""How often that is looked at within the time limit."""
_MEMORY_SHARE = 0.25
"""Part of the available memory that the process of a source may take."""
_LONGEST_REASON = 500

log = structlog.get_logger("wallaroo.gateway")


@contextlib.contextmanager
def found_elsewhere(application: Application, limit_s: float) -> Iterator[Times]:
    """Within the block, let other processes find times; for a process that has no threads yet.

    Args:
        application: The application.
        limit_s: Seconds that its functions may take for a message; 0 for no limit.

    Yields:
        What finds the times of the messages of a source, for each that has a function for it.
    """
    in_order = set[int]().union(*sources_in_order(application))
    sources = {
        index: source
        for index, source in enumerate(application.sources)
        if index in in_order and source.time is not None
    }
    if not sources:
        yield {}
        return
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in (own, other):
        one.settimeout(None)  # whatever user code has set for its own
    running = {index: mmap.mmap(-1, _PROGRESS.size) for index in sources}
    forker = fork_group()
    if forker == 0:
        own.close()
        _fork_on_demand(sources, running, limit_s, other)
    other.close()
    try:
        yield {
            index: _Elsewhere(index, source, own, running[index], limit_s)
            for index, source in sources.items()
        }
    finally:
        own.shutdown(socket.SHUT_RDWR)
        os.waitpid(forker, 0)
        own.close()


class _Elsewhere:
    """Finds the times of the messages of one source by its process.

    Args:
        index: Index of the source in the application.
        source: The source.
        forker: Takes requests for a process.
        running: Has the progress of the process.
        limit_s: Seconds that it may take for one.
    """

    def __init__(
        self,
        index: int,
        source: Source,
        forker: socket.socket,
        running: mmap.mmap,
        limit_s: float,
    ) -> None:
        self._index, self._source, self._forker = index, source, forker
        self._running, self._limit_s = running, limit_s
        self._process: Connection | None = None
        self._asking = threading.Lock()
        self._repeats = Repeats()
        self._has_reported = False
        """Whether it has reported that the function returns no time."""

    def __call__(self, payloads: Sequence[bytes]) -> Sequence[int | None]:
        times: list[int | None] = []
        with self._asking:
            while len(times) < len(payloads):
                times += self._times(_beginning(payloads[len(times) :]))
        return times

    def _times(self, payloads: Sequence[bytes]) -> list[int | None]:
        times: list[int | None] = []
        while rest := payloads[len(times) :]:
            try:
                return times + self._ask(rest)
            except (OSError, EOFError, ValueError) as error:  # it is gone, or answers nonsense
                self._process = None
                (number,) = _NUMBER.unpack_from(self._running)
                times += self._times(rest[: min(number, len(rest) - 1)])
                times.append(None)
                self._report_end(error)
        return times

    def _ask(self, payloads: Sequence[bytes]) -> list[int | None]:
        """Return what the process finds.

        Raises:
            OSError: It has ended, or does not answer in time.
            EOFError: It has ended.
            ValueError: It has not answered what was asked.
        """
        _NUMBER.pack_into(self._running, 0, 0)
        if self._process is None or self._process.poll():  # it has ended while it had no work
            self._process, other = Pipe()
            with other:
                socket.send_fds(self._forker, [_INDEX.pack(self._index)], [other.fileno()])
        self._process.send_bytes(pickle.dumps(payloads))
        last, since = None, time.monotonic()
        while not self._process.poll(_POLL_S):
            progress = _PROGRESS.unpack_from(self._running)
            if progress != last:
                last, since = progress, time.monotonic()
            elif self._limit_s and time.monotonic() - since >= self._limit_s:
                msg = f"it took longer than {self._limit_s:g} s"
                raise TimeoutError(msg)
        times, problem = json.loads(self._process.recv_bytes())
        if len(times) != len(payloads):
            raise ValueError
        if problem is not None and not self._has_reported:
            self._has_reported = True
            self._report(problem)
        return list(times)

    def _report_end(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, TimeoutError) else "it ended its process"
        if self._repeats.show(reason):
            self._report(f"{reason}, or the decoder did")

    def _report(self, reason: str) -> None:
        function = self._source.time
        log.warning(
            "message without a time",
            source=self._source.name,
            function=f"{getattr(function, '__qualname__', 'time')} ({place_of(function)})",
            reason=reason,
            effect="it keeps its place, and messages of other sources can be late",
        )


def _beginning(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """As many of *payloads* as are asked for together, and one at least."""
    size = 0
    for number, payload in enumerate(payloads[:AHEAD_MESSAGES]):
        size += len(payload)
        if size > AHEAD_BYTES and number:
            return payloads[:number]
    return payloads[:AHEAD_MESSAGES]


def _fork_on_demand(
    sources: Mapping[int, Source],
    running: Mapping[int, mmap.mmap],
    limit_s: float,
    requests: socket.socket,
) -> NoReturn:
    """Fork the process of a source whenever that is requested, and kill the one before it."""
    processes: dict[int, int] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # the gateway ends it
            signal.signal(number, signal.SIG_IGN)
        while True:
            request, (*ends,), _, _ = socket.recv_fds(requests, _INDEX.size, 1)
            if not request:
                break
            (index,) = _INDEX.unpack(request)
            _end(processes.get(index))
            if (process := fork_group()) == 0:
                die_with_parent()
                requests.close()
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                if limit_s:
                    _note_waits(running[index], limit_s / _CHECKS)
                _answer(sources[index], running[index], Connection(ends[0]))
            processes[index] = process
            os.close(ends[0])
        for process in processes.values():
            _end(process)
    finally:
        _exit(0)


def _end(process: int | None) -> None:
    if process is not None:
        kill_group(process)
        os.waitpid(process, 0)


def _note_waits(running: mmap.mmap, every_s: float) -> None:
    """Let a thread note in *running* when this one does not run code of the application."""
    watched, never = threading.get_ident(), threading.Event()

    def watch() -> None:
        waits = 0
        while not never.wait(every_s):
            if call_at(sys._current_frames().get(watched)) is None:  # noqa: SLF001
                waits += 1
                _NUMBER.pack_into(running, _WAITS, waits)

    threading.Thread(target=watch, name="waits", daemon=True).start()


def _answer(source: Source, running: mmap.mmap, requests: Connection) -> NoReturn:
    """Find times of messages of *source* until there are no more *requests*."""
    process = _getpid()
    problem: str | None = None

    def note(error: BaseException) -> None:
        nonlocal problem
        if problem is None:
            problem = describe_error(error)[:_LONGEST_REASON]

    time_of = time_function(source, note)
    assert time_of is not None
    to_be_killed_first()
    try:
        with limited(_MEMORY_SHARE):
            while True:
                payloads = pickle.loads(requests.recv_bytes())
                times = []
                for number, payload in enumerate(payloads):
                    _NUMBER.pack_into(running, 0, number)
                    times.append(time_of(payload))
                    if _getpid() != process:  # the call has forked it
                        _exit(1)
                requests.send_bytes(json.dumps([times, problem]).encode())
    finally:
        _exit(0)
