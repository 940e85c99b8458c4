"""Parts of the gateway, run in the test's process over real sockets and logs."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import trustme

from tests.gateway.store_loop import StoreLoop
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.api.places import Place
from wallaroo.connectors.tcp.resolve import TCPSink, TCPSource
from wallaroo.connectors.tcp.source import TCPListener
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.store import Store, StoreLimits
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.framing import Framing
from wallaroo.wire.records import Outputs, Tally

T = TypeVar("T")
U32 = Framing(4, ">I")
NOWHERE = Place("nowhere.py", 0)


def source(name: str = "lines", framing: Framing = U32, port: int = 0) -> TCPSource:
    """A source, on a port that the system chooses where none is given."""
    return TCPSource(name, framing, bytes, NOWHERE, "127.0.0.1", port)


def sink(address: tuple[str, int], name: str = "results") -> TCPSink:
    """A sink that sends to *address*."""
    return TCPSink(name, bytes, NOWHERE, *address)


def outputs(*made: bytes, to: int = 0) -> Outputs:
    """Outputs for the sink *to*, as tasks stage them."""
    return Outputs.of(to, made)


def finished(
    number: int, *made: Outputs, tally: Tally | None = None, change: bytes = b""
) -> FinishedChunk:
    """The chunk *number*, of a message."""
    changes = [(0, change)] if change else []
    return FinishedChunk(number, number, made, tally or Tally(), changes)


@contextlib.contextmanager
def opened(
    directory: Path,
    limits: JournalLimits | None = None,
    outbox_bytes: int = 1 << 30,
    letters: DeadLetterLimits | None = None,
    **more: Any,
) -> Iterator[Store]:
    """A store with a thread of its own, closed at the end; *more* is for `Store`."""
    bounds = StoreLimits(limits or JournalLimits(), outbox_bytes, letters or DeadLetterLimits())
    store = Store(directory, limits=bounds, **more)
    try:
        yield store
    finally:
        store.close()


def publish(
    to: Store | Outbox,
    *chunks: FinishedChunk,
    query: str = "run",
    evidence: EvidenceFinder | None = None,
) -> Tally:
    """Publish *chunks* together, and wait until they are on disk."""
    durable = threading.Event()
    outbox = to.outbox if isinstance(to, Store) else to
    tally = outbox.publish(query, chunks, evidence, durable.set)
    assert durable.wait(PATIENCE_S), "what was published did not reach the disk"
    return tally


class RunningListener:
    """Sources that listen, and the store whose journal they fill."""

    def __init__(
        self,
        directory: Path,
        sources: Sequence[TCPSource],
        limits: JournalLimits | None = None,
        senders: SourceLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.sources = sources
        self._tls = tls
        self._senders = senders
        self.loop = StoreLoop(directory, limits=StoreLimits(limits or JournalLimits()))
        self.store = self.loop.store
        self.journal = self.store.journal
        self.journal.on_room = self._on_room
        self.journal.on_accepted = self._on_accepted
        self.loop.run(self.listen())
        self.addresses = self.listener.addresses

    async def listen(self) -> None:
        """Bind the addresses of the sources."""
        by_index = dict(enumerate(self.sources))
        self.listener = TCPListener(
            ConnectorContext(
                self.journal, self.store.outbox, self._senders or SourceLimits(), self._tls
            ),
            by_index,
        )
        await self.listener.start()

    def _on_room(self) -> None:
        self.listener.on_room()

    def _on_accepted(self, positions: Mapping[StreamName, int]) -> None:
        self.listener.on_accepted(positions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self.loop.run(self.listener.close())
        self.loop.close()

    def stop(self) -> None:
        """Stop accepting, and wait until what was taken is on disk."""
        self.loop.run(self.listener.stop())
        assert self.journal.flush(PATIENCE_S)

    def wait_until_idle(self) -> None:
        """Wait until every connection has ended and all is on disk."""
        wait_until(lambda: not self.listener.connections, "the end of all connections")
        assert self.journal.flush(PATIENCE_S)

    def wait_for(self, count: int, source: int = 0) -> None:
        """Wait until *count* messages of a source are accepted."""
        assert self.journal.wait_accepted(source, count, PATIENCE_S)
        assert self.journal.accepted.get(source, 0) == count

    def payloads(self, start: int = 0, source: int = 0) -> list[bytes]:
        """The payloads of a source from offset *start* on, in order of arrival."""
        framing = self.sources[source].framing
        return [
            payload
            for block in self.journal.read(start, self.journal.end)
            if block.source == source
            for payload in framing.split(block.data)
        ]


class Authority:
    """An authority, and the files that it makes."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._authority = trustme.CA()
        self.file = directory / f"{name}.pem"
        self._authority.cert_pem.write_to_path(self.file)

    def files(self, trusts: Authority | None = None) -> TLSFiles:
        """A certificate for this machine, its key, and whom its holder trusts."""
        made = self._authority.issue_cert("127.0.0.1")
        key, certificate = self._directory / "key.pem", self._directory / "certificate.pem"
        made.private_key_pem.write_to_path(key)
        certificate.unlink(missing_ok=True)
        for pem in made.cert_chain_pems:
            pem.write_to_path(certificate, append=True)
        return TLSFiles(certificate, key, None if trusts is None else trusts.file)
