"""The actions that drivers and commands can request of a gateway."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.acceptance import ask_to_accept
from wallaroo.gateway.consistency.agreement import held_by
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.explaining import Explainer, key_argument
from wallaroo.gateway.internal_api.calls import OTHER_WIRING, check_version
from wallaroo.gateway.internal_api.leases import LeaseHeld, Leases
from wallaroo.gateway.internal_api.service import Action
from wallaroo.gateway.monitoring import Monitor
from wallaroo.gateway.store import Store
from wallaroo.metrics.samples import to_json
from wallaroo.model.application import Application
from wallaroo.wire.checkpoint_progress import CheckpointProgress

log = structlog.get_logger("wallaroo.gateway")


class Control:
    """The actions of one gateway.

    Args:
        application: The application.
        directory: The gateway's directory.
        store: Journal and outbox.
        leases: Decides which driver may use the gateway.
        monitor: Collects status and metrics.
        stop_accepting: Closes the sources; returns when everything they took is on disk.
        restart: Ends the gateway so that another one starts in its place.
        chunks_port: The port for chunks; None if there is none.
        explainer: Makes histories of keys; None if there are to be none.
    """

    def __init__(
        self,
        application: Application,
        directory: Path,
        store: Store,
        leases: Leases,
        monitor: Monitor,
        stop_accepting: Callable[[], None],
        restart: Callable[[], None],
        chunks_port: int | None,
        explainer: Explainer | None,
    ) -> None:
        self._sources = [source.name for source in application.sources]
        self._wiring = application.wiring
        self._directory = directory
        self._store = store
        self._leases = leases
        self._monitor = monitor
        self._stop_accepting = stop_accepting
        self._restart = restart
        self._chunks_port, self._explainer = chunks_port, explainer
        self._dead_letters = StoredDeadLetterActions(store.outbox, store.journal)

    def actions(self) -> dict[str, Action]:
        """The actions by name."""
        dead_letters = self._dead_letters
        return {
            "status": lambda _: dataclasses.asdict(self._monitor.status()),
            "chunks_port": self._chunks_port_for,
            "samples": lambda _: to_json(self._monitor.samples()),
            "hot_keys": lambda _: self._store.outbox.hot_keys(),
            "stop_accepting": lambda _: self._stop_accepting(),
            "wait_accepted": self._wait_accepted,
            "history": self._history,
            "letters": self._letters,
            "letter_origins": lambda _: dead_letters.letter_origins(),
            "drop_letters": lambda asked: dead_letters.drop_letters(Choice.from_json(asked)),
            "replay_letters": lambda asked: dead_letters.replay_letters(Choice.from_json(asked)),
            "claim": self._claim,
            "renew": lambda _: self._renew(),
            "release": lambda asked: self._leases.release(**asked),
            "paused_since": lambda _: self._leases.paused_since,
            "holder": lambda _: self._leases.holder,
            "held": lambda _: held_by(self._store).to_json(),
            "accept_lost": self._accept_lost,
        }

    def _wait_accepted(self, asked: dict[str, Any]) -> bool:
        return self._store.journal.wait_accepted(
            self._sources.index(asked["source"]), asked["count"], asked["timeout_s"]
        )

    def _history(self, asked: dict[str, Any]) -> dict[str, str]:
        """The history of a key, or the problem that there is none."""
        if self._explainer is None:
            return {"problem": "the gateway makes no histories: start it with --histories"}
        try:
            return self._explainer.run([key_argument(asked["key"])])
        except RuntimeFailure as failure:
            return {"problem": str(failure)}

    def _letters(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        found = self._dead_letters.letters(Choice.from_json(asked), asked["most"])
        return [letter.to_json() for letter in found]

    def _claim(self, asked: dict[str, Any]) -> dict[str, Any]:
        check_version(asked)
        ready, fits = asked["ready"], asked["wiring"] == self._wiring
        try:
            number = self._leases.claim(asked["holder"], ready=ready and fits)
        except LeaseHeld:
            if ready is None or fits:
                raise
            raise LeaseHeld(OTHER_WIRING) from None
        log.info("lease acquired", driver=asked["holder"], fencing_token=number)
        return {"number": number}

    def _renew(self) -> dict[str, Any] | None:
        successor = self._leases.renew()
        return None if successor is None else dataclasses.asdict(successor)

    def _chunks_port_for(self, asked: dict[str, Any]) -> int | None:
        """The port for chunks, for a driver whose application has the wiring of the gateway's.

        Raises:
            RuntimeFailure: It has another one.
        """
        if asked["wiring"] != self._wiring:
            raise RuntimeFailure(OTHER_WIRING)
        return self._chunks_port

    def _accept_lost(self, asked: dict[str, Any]) -> None:
        """Resume from a checkpoint's progress, with a restart."""
        ask_to_accept(self._directory, CheckpointProgress(**asked))
        self._restart()
