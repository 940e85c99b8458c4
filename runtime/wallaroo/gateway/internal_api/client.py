"""The client's end of the gateway's internal API."""

from __future__ import annotations

from dataclasses import asdict

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.agreement import Holdings
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.explaining import LIMIT_S
from wallaroo.gateway.internal_api.calls import introduction
from wallaroo.gateway.internal_api.connection import GatewayConnection
from wallaroo.gateway.internal_api.leases import Successor
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

    def chunks_port(self, wiring: str) -> int | None:
        """The port at which the gateway takes chunks; None if it has none.

        Args:
            wiring: That of the driver's application.

        Raises:
            RuntimeFailure: The gateway's application has another one.
        """
        port = self._ask("chunks_port", {"wiring": wiring})
        return None if port is None else int(port)

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages recently, the first first."""
        return [HotKey(*one) for one in self._ask("hot_keys", {})]

    def history(self, key: str) -> dict[str, str]:
        """What `wallaroo explain` says about *key* there; see `Explainer.run`.

        Raises:
            RuntimeFailure: It fails, or the gateway does not answer.
        """
        answer = self._ask("history", {"key": key}, LIMIT_S, answer_s=_STATUS_S)
        if "problem" in answer:
            raise RuntimeFailure(answer["problem"])
        return dict(answer)

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

    def claim(self, holder: str, *, ready: bool | None = None, wiring: str = "") -> int:
        """Acquire the gateway's lease, under which all further calls are made.

        Args:
            holder: Name of the driver; another driver of the same name loses its lease at once.
            ready: Whether it could begin at once if another driver handed over; None if it is not
                to take over from any.
            wiring: That of its application, if it is to take over.

        Returns:
            Its number, which is the fencing token.

        Raises:
            CallRefused: Another driver has the lease, and is alive.
            RuntimeFailure: The gateway speaks another version of the internal API.
        """
        answer = self._ask(
            "claim", {"holder": holder, "ready": ready, "wiring": wiring, **introduction()}
        )
        self._claim = number = int(answer["number"])
        return number

    def renew_claim(self) -> Successor | None:
        """Report that the driver is alive.

        Returns:
            The driver that waits to take over; None if there is none.

        Raises:
            CallRefused: Another driver has acquired the lease since.
        """
        successor = self._ask("renew", {})
        return None if successor is None else Successor(**successor)

    def release_claim(self, *, hands_over: bool = False, paused_since: float | None = None) -> None:
        """Let any other driver acquire the lease at once; a lease that is not released lapses.

        Args:
            hands_over: Whether this driver has handed over to another one, for good.
            paused_since: Since when it was paused, if it was.
        """
        asked = {"hands_over": hands_over, "paused_since": paused_since}
        self._ask("release", asked, answer_s=_RELEASE_S)

    def paused_since(self) -> float | None:
        """Since when the driver that has handed over was paused; None if it was not."""
        since = self._ask("paused_since", {})
        return None if since is None else float(since)

    def holder(self) -> str | None:
        """Name of the driver that has the lease; None if another one can acquire it at once."""
        name = self._ask("holder", {})
        return None if name is None else str(name)


def chunks_address(location: str, lease: int, wiring: str) -> str:
    """The address of the socket for chunks of the gateway whose internal API is at *location*.

    Args:
        location: Where that is.
        lease: Number of the driver's lease.
        wiring: That of the driver's application.

    Raises:
        RuntimeFailure: The gateway does not answer, has none, or has an application of another
            wiring.
    """
    if (path := chunks_socket(location)) is not None:
        return str(path)
    port = GatewayClient(location, claim=lease, patience_s=0).chunks_port(wiring)
    if port is None:
        msg = "the gateway takes no chunks: start it with --token-file"
        raise RuntimeFailure(msg)
    scheme, _, address = location.partition("://")
    host, _, _ = address.rpartition(":")
    return f"{'tls' if scheme == 'https' else 'tcp'}://{host}:{port}"
