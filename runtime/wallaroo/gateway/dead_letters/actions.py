"""Commands on dead letters, with a running gateway or without one."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import REPLAYS, StreamName
from wallaroo.gateway.outbox.outbox import Outbox

_REPLAY_BYTES = 4 * 1024 * 1024
"""Bytes of letters that arrive again in one transaction."""
_ACCEPT_TIMEOUT_S = 60.0


class _NoSource(RuntimeFailure):
    """The application has no source for messages that are to be replayed."""


class DeadLetterActions(Protocol):
    """What can be done with dead letters, wherever they are."""

    def letters(self, choice: Choice, most: int) -> list[DeadLetter]:
        """The last *most* of the chosen letters, the oldest first."""

    def letter_origins(self) -> Origins:
        """The sources and pipelines that letters can come from."""

    def drop_letters(self, choice: Choice) -> int:
        """Delete the chosen letters; returns how many there were."""

    def replay_letters(self, choice: Choice) -> int:
        """Let the chosen letters arrive again, each exactly once; returns how many could."""


class StoredDeadLetterActions:
    """The dead letters of a gateway, or of a state directory whose gateway is stopped.

    Args:
        outbox: Where the letters are.
        journal: Where replayed letters arrive.
    """

    def __init__(self, outbox: Outbox, journal: Journal) -> None:
        self._outbox = outbox
        self._journal = journal
        self._replaying = threading.Lock()

    def letters(self, choice: Choice, most: int) -> list[DeadLetter]:
        """See `DeadLetterActions.letters`."""
        self._outbox.letters.wait_for_disk()
        with self._outbox.letters.transaction() as letters:
            return letters.listed(choice, most)

    def letter_origins(self) -> Origins:
        """See `DeadLetterActions.letter_origins`."""
        with self._outbox.letters.transaction() as letters:
            return letters.origins()

    def drop_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.drop_letters`."""
        with self._outbox.letters.transaction() as letters:
            return letters.drop(choice)

    def replay_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.replay_letters`.

        Raises:
            RuntimeFailure: The application has no source of their name; or the journal did not take
                them, and they are replayed at the next start.
        """
        count = 0
        with self._replaying:
            with self._outbox.letters.transaction() as letters:
                last = letters.last()
            while True:
                with self._outbox.letters.transaction() as letters:
                    replay = letters.begin_replay(choice, _REPLAY_BYTES, last)
                if replay is None:
                    return count
                count += self._finish(replay)

    def finish_replays(self) -> None:
        """Finish the replays that a killed gateway had begun."""
        last = self._journal.stream_positions.last_of(REPLAYS)
        with self._replaying:
            with self._outbox.letters.transaction() as letters:
                letters.note_replays(last)  # the letters may be those of an older copy, or none
                begun = letters.replays()
            for replay in begun:
                with contextlib.suppress(_NoSource):  # there was one when it began
                    self._finish(replay)

    def _finish(self, replay: int) -> int:
        """Let the letters of a replay arrive, unless they have arrived; then delete them."""
        with self._outbox.letters.transaction() as letters:
            name, frames = letters.frames(replay)
            if (source := self._journal.source_number(name)) is None:
                letters.give_up_replay(replay)
        if source is None:
            msg = (
                f"the application has no source {name!r}, of which {len(frames)} of the messages "
                "are; choose others with --source, or start it with one of that name"
            )
            raise _NoSource(msg)
        stream = StreamName(source, REPLAYS)
        if self._journal.stream_positions.last(stream) < replay:
            self._journal.submit(source, len(frames), b"".join(frames), (stream, replay))
            if not self._journal.stream_positions.wait(stream, replay, _ACCEPT_TIMEOUT_S):
                msg = (
                    "the journal did not accept the replayed messages; "
                    "they are replayed at the next start"
                )
                raise RuntimeFailure(msg)
        with self._outbox.letters.transaction() as letters:
            return letters.end_replay(replay)
