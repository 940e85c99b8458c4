"""The processes of a real-time query, as they connect to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from wallaroo import __version__
from wallaroo.gateway.chunks.dispatch import ChunkRun
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.peers import Peer, PeerListener, Session
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.internal_api.calls import OTHER_WIRING
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.store import Store
from wallaroo.wire.chunk_messages import DRIVER, FAILED, HELLO, Hello, json_in, pack_json

if TYPE_CHECKING:
    from wallaroo.gateway.traces import MessageTraces

_STOPPED = "the gateway has been stopped"

log = structlog.get_logger("wallaroo.gateway")


class ChunkServer:
    """Serves the processes of one query at a time: those of the latest one.

    It lives in the event loop that takes the turns of the store.

    Args:
        listener: Where processes connect; closed with the server.
        store: Where messages are, and outputs go.
        leases: Know which driver the gateway serves.
        evidence: Says what becomes of messages that are set aside.
        pace: How much is under way at a time.
        on_failure: Called when the store cannot be used.
        traces: Traces sampled messages; None for no traces.
        wiring: That of the gateway's application.
    """

    def __init__(
        self,
        listener: PeerListener,
        store: Store,
        leases: Leases,
        evidence: EvidenceFinder,
        pace: Pace,
        on_failure: Callable[[Exception], None],
        traces: MessageTraces | None = None,
        wiring: str = "",
    ) -> None:
        self._listener, self._store = listener, store
        self._leases = leases
        self._evidence = evidence
        self._pace, self._wiring = pace, wiring
        self._on_failure = on_failure
        self._reports = PublicationReports(traces)
        self._run: ChunkRun | None = None
        self._resumes = Resumes()
        self._closed = False

    async def start(self) -> None:
        """Accept connections."""
        await self._listener.start(self)
        self._store.on_gather = self._publish
        self._store.writer.on_written = self.step
        self._store.on_turned = self.step
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.call_soon_threadsafe(self._fail_if_stopped)

        self._store.outbox.on_stopped = end

    def close(self) -> None:
        """Cut off the query, and let no other begin."""
        self._closed = True
        self._listener.close()
        if self._run is not None:
            self._run.fail(_STOPPED, planned=True)

    def step(self) -> None:
        """Do what can be done, after a turn of the store."""
        if self._run is not None:
            self._run.step()

    def _publish(self) -> None:
        if self._run is not None:
            self._run.publish()

    def _fail_if_stopped(self) -> None:
        reason = self._store.outbox.stopped
        if self._run is not None and reason is not None:
            self._run.fail(reason, final=True)

    def misunderstood(self, error: Exception) -> None:
        """See `Host.misunderstood`."""
        if isinstance(error, LookupError):
            log.warning("a process of the query is cut off", reason=str(error))
            return
        reason = (
            f"the gateway, wallaroo {__version__}, does not understand a process of the query "
            f"({type(error).__name__}: {error}): run gateway, driver and executors from one image"
        )
        log.error("a process of the query is cut off", reason=reason)
        if self._run is not None:
            self._run.fail(reason, final=True)

    def introduce(self, peer: Peer, frame: bytes) -> tuple[int, Session] | None:
        """See `Host.introduce`."""
        if frame[:1] != HELLO:
            return None
        hello = Hello(*json_in(frame))
        problem = self._leases.problem(hello.claim)
        failure: dict[str, object] | None = None
        if problem is None and self._closed:
            problem, failure = _STOPPED, {"reason": _STOPPED, "final": False, "planned": True}
        if problem is None and hello.wiring not in {None, self._wiring}:
            problem = OTHER_WIRING
        if problem is None and (self._run is None or self._run.order < _order(hello)):
            if self._run is not None:
                self._run.close()
            self._run = ChunkRun(
                hello,
                self._store,
                self._evidence,
                self._resumes,
                self._pace,
                self._reports,
                self._on_failure,
            )
            self._fail_if_stopped()
        run = self._run
        if problem is None and run is not None and run.order == _order(hello):
            if run.join(hello.role, peer):
                return hello.role, run
            problem, failure = "its query has ended", run.failure
        elif problem is None:
            problem = "another query has taken its place"
        if hello.role == DRIVER:
            peer.send(pack_json(FAILED, failure or {"reason": problem, "final": False}))
        return None


def _order(hello: Hello) -> tuple[int, int]:
    return hello.claim, hello.attempt
