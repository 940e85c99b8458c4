"""The client's end of the gateway's internal API."""

from __future__ import annotations

from dataclasses import asdict

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.agreement import Holdings
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.internal_api.calls import introduction
from wallaroo.gateway.internal_api.connection import GatewayConnection
from wallaroo.gateway.internal_api.location import chunks_socket
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.metrics.samples import HotKey, Sample, from_json
from wallaroo.wire.checkpoint_progress import CheckpointProgress

_RELEASE_S = 5.0
"""Seconds to wait for the answer to a release: a pod that ends has only so much time."""

_STATUS_S = 10.0
"""Seconds to wait for a status: who watches a gateway is to see soon that it stands still."""


class GatewayClient(GatewayConnection):
    """Everything that a gateway offers; implements `DeadLetterActions`."""

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        status = self._ask("status", {}, answer_s=_STATUS_S)
        sources = tuple(SourceStatus(**source) for source in status.pop("sources"))
        sinks = tuple(SinkStatus(**sink) for sink in status.pop("sinks"))
        return GatewayStatus(sources=sources, sinks=sinks, **status)

    def samples(self) -> list[Sample]:
        """The same as metrics, with those of the chunks that have been published."""
        return from_json(self._ask("samples", {}))

    def chunks_port(self) -> int | None:
        """The port at which the gateway takes chunks; None if it has none."""
        port = self._ask("chunks_port", {})
        return None if port is None else int(port)

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages recently, the first first."""
        return [HotKey(*one) for one in self._ask("hot_keys", {})]

    def wait_until_accepted(self, source: str, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; returns whether they are."""
        asked = {"source": source, "count": count, "timeout_s": timeout_s}
        return bool(self._ask("wait_accepted", asked, timeout_s))

    def stop_accepting(self) -> None:
        """Close the sources after accepting what their senders have delivered."""
        self._ask("stop_accepting", {})

    def held(self) -> Holdings:
        """What the gateway's journal and outbox hold."""
        return Holdings.from_json(self._ask("held", {}))

    def accept_lost(self, progress: CheckpointProgress) -> None:
        """Let journal and outbox resume from the *progress* of a checkpoint, soon: see `held`."""
        self._ask("accept_lost", asdict(progress))

    # --- dead letters ----------------------------------------------------------------------------

    def letters(self, choice: Choice, most: int) -> list[DeadLetter]:
        """See `DeadLetterActions.letters`."""
        found = self._ask("letters", {**asdict(choice), "most": most})
        return [DeadLetter.from_json(letter) for letter in found]

    def letter_origins(self) -> Origins:
        """See `DeadLetterActions.letter_origins`."""
        return Origins(*self._ask("letter_origins", {}))

    def drop_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.drop_letters`."""
        return int(self._ask("drop_letters", asdict(choice)))

    def replay_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.replay_letters`."""
        return int(self._ask("replay_letters", asdict(choice)))

    # --- the lease, for drivers ------------------------------------------------------------------

    def claim(self, holder: str) -> int:
        """Acquire the gateway's lease, under which all further calls are made.

        Args:
            holder: Name of the driver; another driver of the same name loses its lease at once.

        Returns:
            Its number, which is the fencing token.

        Raises:
            CallRefused: Another driver has the lease, and is alive.
            RuntimeFailure: The gateway speaks another version of the internal API.
        """
        answer = self._ask("claim", {"holder": holder, **introduction()})
        self._claim = number = int(answer["number"])
        return number

    def renew_claim(self) -> None:
        """Report that the driver is alive.

        Raises:
            CallRefused: Another driver has acquired the lease since.
        """
        self._ask("renew", {})

    def release_claim(self) -> None:
        """Let any other driver acquire the lease at once; a lease that is not released lapses."""
        self._ask("release", {}, answer_s=_RELEASE_S)


def chunks_address(location: str, lease: int) -> str:
    """The address of the socket for chunks of the gateway whose internal API is at *location*.

    Raises:
        RuntimeFailure: The gateway does not answer, or has none.
    """
    if (path := chunks_socket(location)) is not None:
        return str(path)
    port = GatewayClient(location, claim=lease, patience_s=0).chunks_port()
    if port is None:
        msg = "the gateway takes no chunks: start it with --token-file"
        raise RuntimeFailure(msg)
    scheme, _, address = location.partition("://")
    host, _, _ = address.rpartition(":")
    return f"{'tls' if scheme == 'https' else 'tcp'}://{host}:{port}"
