"""The processes of a real-time query, as they connect to the gateway."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from wallaroo import __version__
from wallaroo.gateway.chunks.dispatch import ChunkRun
from wallaroo.gateway.chunks.listener import Listener
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.chunks.tail import JournalTail
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.wire.chunk_messages import DRIVER, FAILED, HELLO, Hello, json_in, pack_json
from wallaroo.wire.frame_socket import FrameSocket, Stream

if TYPE_CHECKING:
    from wallaroo.gateway.traces import MessageTraces

log = structlog.get_logger("wallaroo.gateway")


class ChunkServer:
    """Serves the processes of one query at a time: those of the latest one.

    Args:
        listener: Where processes connect; closed with the server.
        journal: The journal.
        journal_file: File of its database.
        outbox: The outbox.
        leases: Know which driver the gateway serves.
        evidence: Says what becomes of messages that are set aside.
        pace: How much is under way at a time.
        on_failure: Called when the outbox cannot be written.
        traces: Traces sampled messages; None for no traces.
    """

    def __init__(
        self,
        listener: Listener,
        journal: Journal,
        journal_file: Path,
        outbox: Outbox,
        leases: Leases,
        evidence: EvidenceFinder,
        pace: Pace,
        on_failure: Callable[[Exception], None],
        traces: MessageTraces | None = None,
    ) -> None:
        self._journal, self._journal_file = journal, journal_file
        self._outbox = outbox
        self._leases = leases
        self._evidence = evidence
        self._pace = pace
        self._on_failure = on_failure
        self._reports = PublicationReports(traces)
        self._lock = threading.Lock()
        self._run: ChunkRun | None = None
        self._resumes = Resumes()
        self._served: dict[threading.Thread, socket.socket] = {}
        """Connections, by the threads that serve them."""
        self._closed = False
        self._listener = listener
        threading.Thread(target=self._accept, name="chunks", daemon=True).start()

    def close(self) -> None:
        """Cut off the query."""
        self._listener.close()
        with self._lock:
            run, self._closed = self._run, True
        if run is not None:
            run.close()
            run.wait()
        for thread, connection in self._served.items():
            with contextlib.suppress(OSError):  # the other side has closed it
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self) -> None:
        while (connection := self._listener.accept()) is not None:
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="chunks-peer", daemon=True
            )
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._served = {t: c for t, c in self._served.items() if t.is_alive()}
                self._served[thread] = connection
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        run, frames = None, None
        try:
            greeting = self._listener.introduced(connection, _greeting)
            if greeting is None:
                return
            frames, first = greeting
            if first is None or first[:1] != HELLO:
                return
            hello = Hello(*json_in(first))
            run = self._run_of(hello, frames)
            while run is not None and (frame := frames.receive()) is not None:
                run.receive(hello.role, frame)
        except OSError:
            pass  # it is gone
        except LookupError as error:
            log.warning("a process of the query is cut off", reason=str(error))
        except (TypeError, ValueError, struct.error) as error:
            self._misunderstood(error)
        except sqlite3.Error as error:
            self._on_failure(error)
        finally:
            if run is not None:
                run.close()  # without one of its processes, a query cannot continue
            connection.close()

    def _misunderstood(self, error: Exception) -> None:
        """A process that may use the gateway has sent what makes no sense here."""
        reason = (
            f"the gateway, wallaroo {__version__}, does not understand a process of the query "
            f"({type(error).__name__}: {error}): run gateway, driver and executors from one image"
        )
        log.error("a process of the query is cut off", reason=reason)
        with self._lock:
            run = self._run
        if run is not None:
            run.fail(reason, final=True)

    def _run_of(self, hello: Hello, frames: FrameSocket) -> ChunkRun | None:
        """The run of which a process says *hello*; None where it may not take part."""
        problem, final = self._leases.problem(hello.claim), False
        with self._lock:
            if problem is None and (self._run is None or self._run.order < _order(hello)):
                if self._run is not None:
                    self._run.close()
                    self._run.wait()  # it may be publishing, and the new one is to know of it
                self._run = ChunkRun(
                    hello,
                    self._journal,
                    lambda: JournalTail(self._journal_file),
                    self._outbox,
                    self._evidence,
                    self._resumes,
                    self._pace,
                    self._reports,
                    self._on_failure,
                )
            run = self._run
        if problem is None and run is not None and run.order == _order(hello):
            if run.join(hello.role, frames):
                return run
            problem, final = run.end
        elif problem is None:
            problem = "another query has taken its place"
        if hello.role == DRIVER:
            frames.send(pack_json(FAILED, {"reason": problem, "final": final}))
        return None


def _order(hello: Hello) -> tuple[int, int]:
    return hello.claim, hello.attempt


def _greeting(stream: Stream) -> tuple[FrameSocket, bytes | None]:
    """A peer's connection, and its first frame."""
    frames = FrameSocket(stream)
    return frames, frames.receive()
