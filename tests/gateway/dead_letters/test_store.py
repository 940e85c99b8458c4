"""Dead letters: what is kept of messages set aside, and what can be done with it."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import NOWHERE, U32, finished, source
from tests.gateway.test_server import RunningGateway
from tests.helpers import PATIENCE_S
from wallaroo.cli.main import main
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder, Stopped
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import Choice, DeadLetterLimits
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application, Branch, Pipeline
from wallaroo.wire.records import FailedMessage, Tally

ALL = Choice()
OF_ONE = FailedMessage("one", "step", "f.py:1", "ValueError: no", "'m'")


class Databases:
    """The databases of a gateway of two sources, without sockets."""

    def __init__(self, directory: Path, **limits: float) -> None:
        pipelines = tuple(
            Pipeline(name, source(name), Branch(()), (), NOWHERE) for name in ("one", "two")
        )
        self.application = Application("app", pipelines, {})
        self.outbox = Outbox(directory / "outbox.db", 1 << 30, DeadLetterLimits(**limits))  # type: ignore[arg-type]
        self.journal = Journal(directory / "journal.db", JournalLimits())
        self.actions = StoredDeadLetterActions(self.outbox, self.journal)
        self.chunks = 0
        self.accepted = 0

    def accept(self, *payloads: bytes, of: int = 0) -> None:
        """Let messages arrive."""
        self.journal.submit(of, len(payloads), b"".join(map(U32.frame, payloads)))
        self.accepted += len(payloads)
        assert self.journal.flush(PATIENCE_S)

    def publish(self, *letters: FailedMessage, **policies: Policy) -> Tally:
        """Publish a chunk in which *letters* were set aside."""
        tally = Tally()
        for letter in letters:
            tally.add_set_aside(letter)
        self.chunks += 1
        evidence = EvidenceFinder(self.application, self.journal, policies)
        chunk = finished(self.chunks, tally=tally)._replace(end=self.accepted)
        return self.outbox.publish("run", [chunk], evidence)

    def close(self) -> None:
        self.journal.close()
        self.outbox.close()


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Databases]:
    made = Databases(tmp_path)
    yield made
    made.close()


def test_a_letter_has_the_traceback_of_its_error(databases: Databases, tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "f.py", line 1, in f\nValueError: \x1b[1m\n'
    databases.publish(OF_ONE._replace(traceback=text), OF_ONE)
    assert [letter.traceback for letter in databases.actions.letters(ALL, 2)] == [text, ""]
    databases.close()
    at = ("--state-dir", str(tmp_path))
    shown = [call("show", number, *at).stdout for number in ("1", "2")]
    assert shown[0].endswith("in f\nValueError: \\x1b[1m\n")
    assert "Traceback" not in shown[1]


def test_letters_from_before_tracebacks_were_kept_are_read(tmp_path: Path) -> None:
    earlier = Databases(tmp_path)
    earlier.publish(OF_ONE)
    earlier.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "outbox.db")) as database:
        database.execute("ALTER TABLE letter DROP COLUMN traceback")
    later = Databases(tmp_path)
    (letter,) = later.actions.letters(ALL, 2)
    assert (letter.error, letter.traceback) == (OF_ONE.error, "")
    later.close()


def test_a_letter_has_the_message_as_it_arrived(databases: Databases) -> None:
    databases.accept(b"a", b"b")
    databases.accept(b"c", of=1)
    databases.publish(OF_ONE._replace(arrival=1, key="'k'"))
    (letter,) = databases.actions.letters(ALL, 10)
    assert (letter.source, letter.pipeline, letter.step) == ("one", "one", "step")
    assert (letter.place, letter.error) == ("f.py:1", "ValueError: no")
    assert (letter.key, letter.payload) == ("'k'", b"b")
    assert letter.arrived_ns is not None
    assert letter.arrived_ns <= letter.set_aside_ns


def test_one_message_may_be_set_aside_by_several_pipelines(databases: Databases) -> None:
    databases.accept(b"same", of=1)
    databases.accept(b"x", b"same", b"same")
    databases.publish(*[OF_ONE._replace(arrival=arrival) for arrival in (2, 2, 3)])
    assert [letter.payload for letter in databases.actions.letters(ALL, 10)] == [b"same"] * 3
    assert databases.actions.replay_letters(ALL) == 3


def test_behind_a_state_there_is_no_payload_and_no_replay(databases: Databases) -> None:
    databases.accept(b"a")
    databases.publish(OF_ONE)
    (letter,) = databases.actions.letters(ALL, 10)
    assert letter.payload is None
    assert databases.actions.replay_letters(ALL) == 0
    assert databases.actions.drop_letters(ALL) == 1


def test_what_is_replayed_arrives_once_more_and_its_letter_is_gone(databases: Databases) -> None:
    databases.accept(b"a", b"b", b"c")
    databases.publish(*(OF_ONE._replace(arrival=number) for number in range(3)))
    databases.journal.consume(3)
    chosen = Choice((1, 3))
    assert databases.actions.replay_letters(chosen) == 2
    (chunk,) = (chunk for block in databases.journal.read(3, 5) for chunk in block)
    assert U32.split(chunk.data) == [b"a", b"c"]
    assert [letter.id for letter in databases.actions.letters(ALL, 10)] == [2]
    assert databases.actions.replay_letters(chosen) == 0


def test_a_message_that_fails_again_at_once_is_replayed_once(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases.accept(b"a")
    databases.publish(OF_ONE._replace(arrival=0))
    submit = databases.journal.submit

    def submit_and_fail(*arguments: Any) -> bool:
        room = submit(*arguments)
        assert databases.journal.flush(PATIENCE_S)
        databases.publish(OF_ONE._replace(arrival=databases.journal.end - 1))
        return room

    monkeypatch.setattr(databases.journal, "submit", submit_and_fail)
    assert databases.actions.replay_letters(ALL) == 1
    assert [letter.id for letter in databases.actions.letters(ALL, 10)] == [2]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_replay_that_a_kill_has_cut_short_is_done_once(tmp_path: Path, arrived: bool) -> None:
    before = Databases(tmp_path)
    before.accept(b"a")
    before.publish(OF_ONE._replace(arrival=0))
    with before.outbox.dead_letters() as letters:
        replay = letters.begin_replay(ALL, 1000, letters.last())
    assert replay is not None
    if arrived:
        position = (StreamName(0, ""), replay)
        before.journal.submit(0, 1, U32.frame(b"a"), position)
    before.close()
    after = Databases(tmp_path)
    after.actions.finish_replays()
    assert after.journal.end == 2
    assert after.actions.letters(ALL, 10) == []
    after.close()


def test_the_oldest_letters_go_where_there_are_too_many(tmp_path: Path) -> None:
    databases = Databases(tmp_path, size_bytes=20_000)
    databases.accept(*[bytes(1_000)] * 30)
    for number in range(30):
        databases.publish(OF_ONE._replace(arrival=number))
    kept = [letter.id for letter in databases.actions.letters(ALL, 100)]
    assert kept == list(range(kept[0], 31))
    assert 10 < len(kept) < 20
    counters = databases.outbox.counters()
    assert (counters["letters"], counters["letters_gone"]) == (len(kept), 30 - len(kept))
    databases.close()


def test_old_letters_go(tmp_path: Path) -> None:
    databases = Databases(tmp_path, age_s=0.0)
    databases.accept(b"a", b"b")
    databases.publish(OF_ONE._replace(arrival=0))
    databases.publish(OF_ONE._replace(arrival=1))
    assert [letter.payload for letter in databases.actions.letters(ALL, 10)] in ([b"b"], [])
    databases.close()


def test_each_source_has_its_policy(databases: Databases) -> None:
    databases.accept(b"a")
    databases.accept(b"b", of=1)
    of_two = OF_ONE._replace(pipeline="two", arrival=1)
    databases.publish(OF_ONE._replace(arrival=0), of_two, one=Policy.DROP)
    assert [letter.source for letter in databases.actions.letters(ALL, 10)] == ["two"]
    assert databases.outbox.counters()["set_aside"] == 2
    with pytest.raises(Stopped, match=r"source 'two'.*ValueError: no"):
        databases.publish(of_two, two=Policy.STOP)
    assert databases.outbox.counters()["set_aside"] == 2


def test_letters_can_be_chosen(databases: Databases) -> None:
    databases.accept(b"a")
    databases.publish(OF_ONE, OF_ONE._replace(pipeline="two"))
    for choice in (Choice(source="two"), Choice(pipeline="two"), Choice((2,))):
        assert [letter.id for letter in databases.actions.letters(choice, 10)] == [2]
    assert databases.actions.drop_letters(Choice(source="one")) == 1


# the command


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["dead-letters", *arguments], catch_exceptions=False)


def assert_refused(result: Result, said: str) -> None:
    assert result.exit_code == 2
    assert said in result.stderr


def see_to_letters(directory: Path) -> None:
    at = ("--state-dir", str(directory))
    assert "one / step  key 'k'  ValueError: no" in call("list", *at).stdout
    assert "hello" in call("show", "1", *at).stdout
    assert call("show", "1", "--payload", *at).stdout_bytes == b"hello"
    assert call("replay", "1", *at).stdout == "1 replayed\n"
    assert call("drop", "--all", *at).stdout == "1 dropped\n"
    assert call("list", *at).stdout == ""
    for chosen in (("show", "1"), ("replay", "1"), ("drop", "1")):
        assert_refused(call(*chosen, *at), f"there is no dead letter 1 in {directory}")
    for command in ("list", "replay", "drop"):
        told = call(command, "--source", "three", *at)
        assert_refused(told, "there is no source 'three'; the sources are: 'one', 'two'")
        told = call(command, "--pipeline", "three", *at)
        assert_refused(told, "there is no pipeline 'three'; the pipelines are: 'one', 'two'")
        assert call(command, "--source", "two", *at).exit_code == 0  # it has none
    assert "no dead letters selected" in call("drop", *at).output


def test_the_command_works_where_the_gateway_is_stopped(tmp_path: Path) -> None:
    databases = Databases(tmp_path)
    databases.accept(b"hello", b"you")
    letter = OF_ONE._replace(key="'k'")
    databases.publish(letter._replace(arrival=0), letter._replace(arrival=1))
    with databases.outbox.dead_letters() as letters:  # as each gateway does
        letters.note_origins(databases.application)
    databases.close()
    see_to_letters(tmp_path)


def test_nothing_is_done_where_one_of_the_numbers_is_none_of_those_chosen(tmp_path: Path) -> None:
    databases = Databases(tmp_path)
    databases.accept(b"a")
    databases.publish(OF_ONE._replace(arrival=0))
    databases.close()
    at = ("--state-dir", str(tmp_path))
    for command in ("drop", "replay"):
        assert_refused(call(command, "1", "2", *at), "there is no dead letter 2 in")
        told = call(command, "1", "--pipeline", "two", *at)
        refused = "there is no pipeline 'two'; the pipelines are: 'one'"
        assert_refused(told, refused)  # no gateway has told of it
    assert call("drop", "1", "1", *at).stdout == "1 dropped\n"


def test_a_letter_without_a_payload_is_not_replayed_and_that_is_said(tmp_path: Path) -> None:
    databases = Databases(tmp_path)
    databases.accept(b"a")
    databases.publish(OF_ONE)
    databases.close()
    at = ("--state-dir", str(tmp_path))
    assert_refused(call("replay", "1", *at), "had passed a state; it cannot be replayed")
    assert call("replay", "--all", *at).stdout == "0 replayed, 1 kept, which cannot be replayed\n"


def test_the_command_works_where_the_gateway_runs() -> None:
    with tempfile.TemporaryDirectory() as directory:
        running = RunningGateway(Path(directory))
        running.send(b"hello", b"you")
        client, letter = running.gateway_client, OF_ONE._replace(key="'k'")
        tally = Tally(2, [], [letter._replace(arrival=0), letter._replace(arrival=1)])
        running.engine.publish(tally=tally)
        assert client.status().dead_letters == 2
        see_to_letters(Path(directory))
        assert client.wait_until_accepted("one", 3, PATIENCE_S)
        running.close()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("replay",), "no dead letters selected"),
        (("drop", "1", "--all"), "--all selects all dead letters"),
        (("replay", "--all", "--source", "one"), "--all selects all dead letters"),
        (("show", str(2**63)), "is not in the range"),
        (("drop", "99999999999999999999999"), "is not in the range"),
    ],
)
def test_a_choice_that_is_none_is_refused(
    arguments: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    Databases(tmp_path).close()
    result = call(*arguments, "--state-dir", str(tmp_path))
    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_list_says_that_there_are_more(tmp_path: Path) -> None:
    databases = Databases(tmp_path)
    databases.accept(b"a", b"b", b"c")
    databases.publish(*(OF_ONE._replace(arrival=number) for number in range(3)))
    databases.close()
    at = ("--state-dir", str(tmp_path))
    for last, more in (
        ("2", "there are more dead letters than these 2: --last N lists N\n"),
        ("3", ""),
    ):
        told = call("list", "--last", last, *at)
        assert (told.stdout.count("ValueError: no"), told.stderr) == (int(last), more)
    assert call("list", "--last", "2", "--json", *at).stdout.count("\n") == 2


def test_the_command_says_where_there_is_no_state(tmp_path: Path) -> None:
    assert "is not a state directory" in call("list", "--state-dir", str(tmp_path)).output


def test_a_letter_comes_back_from_json_as_it_was(databases: Databases) -> None:
    databases.accept(b"\xff")
    databases.publish(OF_ONE._replace(arrival=0))
    (letter,) = databases.actions.letters(ALL, 10)
    assert type(letter).from_json(letter.to_json()) == letter
    assert dataclasses.replace(letter, payload=None).to_json()["payload"] is None
