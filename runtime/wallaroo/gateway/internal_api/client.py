"""The client's end of the gateway's internal API, in parts by purpose.

Engines and their workers use `EngineClient`, drivers hold their lease with `LeaseClient`, commands
use `ControlClient` and `DeadLetterClient`. `GatewayClient` is all of them over one connection.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wallaroo.dataflow.records import Chunk, Outputs, Position, Tally
from wallaroo.engine.gateway_api import (
    CheckpointProgress,
    Latest,
    Offsets,
    PublishedChange,
    Range,
    StateChange,
)
from wallaroo.gateway.consistency.agreement import Holdings
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.internal_api.connection import Connection
from wallaroo.gateway.internal_api.service import pack_staged
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.gateway.internal_api.versions import introduction
from wallaroo.metrics.samples import HotKey, Sample, from_json
from wallaroo.system.failpoints import fault


class EngineClient(Connection):
    """Journal and outbox, for engines; implements `GatewayAPI`."""

    def latest(
        self,
        after: Offsets,
        max_bytes: int,
        max_messages: int,
        wait_s: float,
        opening: str | None = None,
    ) -> Latest:
        """See `GatewayAPI.latest`."""
        asked = {
            "after": dict(after),
            "max_bytes": max_bytes,
            "max_messages": max_messages,
            "wait_s": wait_s,
            "opening": opening,
        }
        return Latest(*self._ask("latest", asked, wait_s))

    def plan(self, start: Offsets, end: Offsets, parts: int) -> Sequence[Range]:
        """See `GatewayAPI.plan`."""
        asked = {"start": dict(start), "end": dict(end), "parts": parts}
        return [Range(Position(*first), after) for first, after in self._ask("plan", asked)]

    def read(self, messages: Range) -> Iterator[Sequence[Chunk]]:
        """See `GatewayAPI.read`."""
        log = messages.start.log
        rest = messages._asdict()
        for rows in self._rows("read", rest):
            block = [
                Chunk(first, count, source, arrived_ns, data, log)
                for first, count, source, arrived_ns, data in rows
            ]
            rest["start"] = Position(log, block[-1].first + block[-1].messages)
            yield block

    def stage(
        self,
        run: str,
        epoch: int,
        token: str,
        outputs: Sequence[Outputs],
        tally: Tally,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """See `GatewayAPI.stage`."""
        command = {
            "run": run,
            "epoch": epoch,
            "token": token,
            "tally": tally.to_json(),
            "call": uuid.uuid4().hex,  # by it the gateway recognises a repeated call
        }
        fault("worker-before-stage")
        self._call("stage", pack_staged(command, outputs, changes))
        fault("worker-after-stage")

    def publish(
        self, run: str, epoch: int, tokens: Sequence[str], offsets: Offsets
    ) -> Tally | None:
        """See `GatewayAPI.publish`."""
        asked = {"run": run, "epoch": epoch, "tokens": list(tokens), "offsets": dict(offsets)}
        fault("driver-before-publish")
        report = self._ask("publish", asked)
        fault("driver-after-publish")
        return None if report is None else Tally.from_json(report)

    def changes(self, run: str, after_epoch: int) -> Iterator[Sequence[PublishedChange]]:
        """See `GatewayAPI.changes`."""
        rest: dict[str, Any] = {"changes": run, "after": [after_epoch]}
        for rows in self._rows("changes", rest):
            rest["after"] = rows[-1][:2]
            yield [
                PublishedChange(epoch, number, StateChange(*row)) for epoch, number, *row in rows
            ]

    def forget_changes(self, run: str, epoch: int) -> None:
        """See `GatewayAPI.forget_changes`."""
        self._ask("forget_changes", {"run": run, "epoch": epoch})

    def wake(self, at_ns: int | None, *, has_outputs: bool = True) -> None:
        """See `GatewayAPI.wake`."""
        self._ask("wake", {"at_ns": at_ns, "has_outputs": has_outputs})

    def consume(self, end: Offsets) -> None:
        """See `GatewayAPI.consume`."""
        self._ask("consume", {"end": dict(end)})

    def chunks_port(self) -> int | None:
        """The port at which the gateway takes chunks; None if it has none."""
        port = self._ask("chunks_port", {})
        return None if port is None else int(port)


class ControlClient(Connection):
    """Status, metrics and control of a gateway."""

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        status = self._ask("status", {})
        sources = tuple(SourceStatus(**source) for source in status.pop("sources"))
        sinks = tuple(SinkStatus(**sink) for sink in status.pop("sinks"))
        return GatewayStatus(sources=sources, sinks=sinks, **status)

    def samples(self) -> list[Sample]:
        """The same as metrics, with those of the epochs that have been published."""
        return from_json(self._ask("samples", {}))

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


class DeadLetterClient(Connection):
    """The dead letters of a gateway that runs; implements `DeadLetterActions`."""

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


@dataclass(frozen=True)
class Lease:
    """The right of one driver to use a gateway."""

    number: int
    """Its number, which is the fencing token."""


class LeaseClient(Connection):
    """The lease of a gateway, for drivers."""

    def claim(self, holder: str) -> Lease:
        """Acquire the gateway's lease, under which this connection makes all further calls.

        Args:
            holder: Name of the driver; another driver of the same name loses its lease at once.

        Raises:
            Refused: Another driver has the lease, and is alive.
            RuntimeFailure: The gateway speaks another version of the internal API.
        """
        claim = Lease(**self._ask("claim", {"holder": holder, **introduction()}))
        self._claim = claim.number
        return claim

    def renew_claim(self) -> None:
        """Report that the driver is alive.

        Raises:
            Refused: Another driver has acquired the lease since.
        """
        self._ask("renew", {})

    def release_claim(self) -> None:
        """Let any other driver acquire the lease at once."""
        self._ask("release", {})


class GatewayClient(EngineClient, ControlClient, DeadLetterClient, LeaseClient):
    """Everything that a gateway offers, over one connection."""
