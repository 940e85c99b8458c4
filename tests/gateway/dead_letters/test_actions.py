"""Replays of dead letters whose database is lost, or is an older copy."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.harness import U32, opened
from tests.helpers import PATIENCE_S
from wallaroo.gateway.damage import LETTERS
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.evidence import Evidence
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.store import Store
from wallaroo.wire.records import FailedMessage

FAILED = FailedMessage("one", "step", "f.py:1", "ValueError: no", "'m'")


def replayed(store: Store, payload: bytes) -> int:
    """Let a message fail and replay it; how many messages there are then."""
    actions = StoredDeadLetterActions(store.outbox, store.journal)
    actions.finish_replays()
    with store.outbox.letters.transaction() as letters:
        evidence = Evidence(5, 4, U32.frame(payload))
        letters.take("log", store.journal.end + 1, [Letter(0, "one", FAILED, evidence)])
    assert actions.replay_letters(Choice()) == 1
    assert store.journal.flush(PATIENCE_S)
    return store.journal.end


def test_letters_are_replayed_after_their_database_was_removed(tmp_path: Path) -> None:
    with opened(tmp_path, sources=["one"]) as store:
        assert replayed(store, b"1") == 1
        assert replayed(store, b"2") == 2
    for file in tmp_path.glob(f"{LETTERS}*"):
        file.unlink()
    with opened(tmp_path, sources=["one"]) as store:
        assert replayed(store, b"3") == 3
        (*_, last) = store.journal.read(0, 3)
        assert U32.split(last.data) == [b"3"]
