"""Dead letters: what is kept of messages set aside, and what can be done with it."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from tests.gateway.harness import NOWHERE, U32, finished, opened, publish, source
from tests.gateway.test_server import RunningGateway
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.cli.main import main
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder, Stopped
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import Choice, DeadLetterLimits
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.store import Store, StoreLimits
from wallaroo.model.application import Application, Branch, Pipeline
from wallaroo.wire.records import FailedMessage, Tally
from wallaroo.wire.refusals import refusal

ALL = Choice()
OF_ONE = FailedMessage("one", "step", "f.py:1", "ValueError: no", "'m'")


class Stored:
    """The store of a gateway of two sources, without sockets."""

    def __init__(self, directory: Path, **limits: float) -> None:
        pipelines = tuple(
            Pipeline(name, source(name), Branch(()), (), NOWHERE) for name in ("one", "two")
        )
        self.application = Application("app", pipelines, {})
        bounds = StoreLimits(letters=DeadLetterLimits(**limits))  # type: ignore[arg-type]
        self.store = Store(directory, limits=bounds, sources=("one", "two"))
        self.outbox, self.journal = self.store.outbox, self.store.journal
        self.actions = StoredDeadLetterActions(self.outbox, self.journal)
        self.chunks = max((p.chunk for p in self.outbox.progress().values()), default=0)
        self.accepted = self.journal.end

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
        return publish(self.outbox, chunk, evidence=evidence)

    def close(self) -> None:
        self.store.close()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(tmp_path)
    yield made
    made.close()


def test_a_letter_has_the_traceback_of_its_error(stored: Stored, tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "f.py", line 1, in f\nValueError: \x1b[1m\n'
    stored.publish(OF_ONE._replace(traceback=text), OF_ONE)
    assert [letter.traceback for letter in stored.actions.letters(ALL, 2)] == [text, ""]
    stored.close()
    at = ("--state-dir", str(tmp_path))
    shown = [call("show", number, *at).stdout for number in ("1", "2")]
    assert shown[0].endswith("in f\nValueError: \\x1b[1m\n")
    assert "Traceback" not in shown[1]


def test_a_letter_has_the_message_as_it_arrived(stored: Stored) -> None:
    stored.accept(b"a", b"b")
    stored.accept(b"c", of=1)
    stored.publish(OF_ONE._replace(arrival=1, key="'k'"))
    (letter,) = stored.actions.letters(ALL, 10)
    assert (letter.source, letter.pipeline, letter.step) == ("one", "one", "step")
    assert (letter.place, letter.error) == ("f.py:1", "ValueError: no")
    assert (letter.key, letter.payload) == ("'k'", b"b")
    assert letter.arrived_ns is not None
    assert letter.arrived_ns <= letter.set_aside_ns


def test_one_message_may_be_set_aside_by_several_pipelines(stored: Stored) -> None:
    stored.accept(b"same", of=1)
    stored.accept(b"x", b"same", b"same")
    stored.publish(*[OF_ONE._replace(arrival=arrival) for arrival in (2, 2, 3)])
    assert [letter.payload for letter in stored.actions.letters(ALL, 10)] == [b"same"] * 3
    assert stored.actions.replay_letters(ALL) == 3


def test_behind_a_state_there_is_no_payload_and_no_replay(stored: Stored) -> None:
    stored.accept(b"a")
    stored.publish(OF_ONE)
    (letter,) = stored.actions.letters(ALL, 10)
    assert letter.payload is None
    assert stored.actions.replay_letters(ALL) == 0
    assert stored.actions.drop_letters(ALL) == 1


def test_what_is_replayed_arrives_once_more_and_its_letter_is_gone(stored: Stored) -> None:
    stored.accept(b"a", b"b", b"c")
    stored.publish(*(OF_ONE._replace(arrival=number) for number in range(3)))
    stored.journal.consume(3)
    chosen = Choice((1, 3))
    assert stored.actions.replay_letters(chosen) == 2
    (chunk,) = stored.journal.read(3, 5)
    assert U32.split(chunk.data) == [b"a", b"c"]
    assert [letter.id for letter in stored.actions.letters(ALL, 10)] == [2]
    assert stored.actions.replay_letters(chosen) == 0


def test_a_message_that_fails_again_at_once_is_replayed_once(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.accept(b"a")
    stored.publish(OF_ONE._replace(arrival=0))
    submit = stored.journal.submit

    def submit_and_fail(*arguments: Any) -> bool:
        room = submit(*arguments)
        assert stored.journal.flush(PATIENCE_S)
        stored.publish(OF_ONE._replace(arrival=stored.journal.end - 1))
        return room

    monkeypatch.setattr(stored.journal, "submit", submit_and_fail)
    assert stored.actions.replay_letters(ALL) == 1
    assert [letter.id for letter in stored.actions.letters(ALL, 10)] == [2]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_replay_that_a_kill_has_cut_short_is_done_once(tmp_path: Path, arrived: bool) -> None:
    before = Stored(tmp_path)
    before.accept(b"a")
    before.publish(OF_ONE._replace(arrival=0))
    with before.outbox.letters.transaction() as letters:
        replay = letters.begin_replay(ALL, 1000, letters.last())
    assert replay is not None
    if arrived:
        position = (StreamName(0, ""), replay)
        before.journal.submit(0, 1, U32.frame(b"a"), position)
    before.close()
    after = Stored(tmp_path)
    after.actions.finish_replays()
    assert after.journal.end == 2
    assert after.actions.letters(ALL, 10) == []
    after.close()


def test_the_oldest_letters_go_where_there_are_too_many(tmp_path: Path) -> None:
    stored = Stored(tmp_path, size_bytes=20_000)
    stored.accept(*[bytes(1_000)] * 30)
    for number in range(30):
        stored.publish(OF_ONE._replace(arrival=number))
    kept = [letter.id for letter in stored.actions.letters(ALL, 100)]
    assert kept == list(range(kept[0], 31))
    assert 10 < len(kept) < 20
    counters = stored.outbox.counters()
    assert (counters["letters"], counters["letters_gone"]) == (len(kept), 30 - len(kept))
    stored.close()


def test_old_letters_go(tmp_path: Path) -> None:
    stored = Stored(tmp_path, age_s=0.0)
    stored.accept(b"a", b"b")
    stored.publish(OF_ONE._replace(arrival=0))
    stored.publish(OF_ONE._replace(arrival=1))
    assert [letter.payload for letter in stored.actions.letters(ALL, 10)] in ([b"b"], [])
    stored.close()


def test_each_source_has_its_policy(stored: Stored) -> None:
    stored.accept(b"a")
    stored.accept(b"b", of=1)
    of_two = OF_ONE._replace(pipeline="two", arrival=1)
    stored.publish(OF_ONE._replace(arrival=0), of_two, one=Policy.DROP)
    assert [letter.source for letter in stored.actions.letters(ALL, 10)] == ["two"]
    assert stored.outbox.counters()["set_aside"] == 2
    with pytest.raises(Stopped, match=r"source 'two'.*ValueError: no"):
        stored.publish(of_two, two=Policy.STOP)
    assert stored.outbox.counters()["set_aside"] == 2


def test_letters_can_be_chosen(stored: Stored) -> None:
    stored.accept(b"a")
    stored.publish(OF_ONE, OF_ONE._replace(pipeline="two"))
    for choice in (Choice(source="two"), Choice(pipeline="two"), Choice((2,))):
        assert [letter.id for letter in stored.actions.letters(choice, 10)] == [2]
    assert stored.actions.drop_letters(Choice(source="one")) == 1


def test_a_refused_output_is_listed_as_soon_as_it_is_counted(stored: Stored) -> None:
    for count in range(1, 20):
        stored.outbox.delivered(0, 0, refused=[RefusedOutput(OF_ONE, b"refused")])
        assert stored.outbox.counters()["letters"] == count
        assert len(stored.actions.letters(ALL, 100)) == count


def test_letters_are_there_once_wherever_a_kill_was(tmp_path: Path) -> None:
    """Between log and database, and with either of them older than the other."""
    (tmp_path / "state").mkdir()
    stored = Stored(tmp_path / "state")
    copies = []
    for number in range(4):
        stored.accept(b"%d" % number)
        stored.publish(OF_ONE._replace(arrival=number))
        stored.outbox.delivered(0, 0, refused=[RefusedOutput(OF_ONE, b"refused %d" % number)])
        assert stored.journal.flush(PATIENCE_S)
        stored.store.writer.flush()
        copies.append(tmp_path / f"copy-{number}")
        shutil.copytree(tmp_path / "state", copies[-1])
    stored.close()
    for number, copy in enumerate(copies):
        for file in copy.glob("letters.db*"):
            file.unlink()
        shutil.copy(tmp_path / "state/letters.db", copy)  # newer than the log
        with opened(copy) as store:
            letters = StoredDeadLetterActions(store.outbox, store.journal).letters(ALL, 100)
        assert len(letters) == 8
        later = Stored(copy)  # what comes instead of what the log has lost is not taken for it
        later.accept(b"later")
        later.publish(OF_ONE._replace(arrival=later.journal.end - 1))
        assert [letter.payload for letter in later.actions.letters(ALL, 1)] == [b"later"]
        later.close()
        for file in copy.glob("letters.db*"):  # none at all
            file.unlink()
        for _ in range(2):
            with opened(copy) as store:
                letters = StoredDeadLetterActions(store.outbox, store.journal).letters(ALL, 100)
            found = [letter.payload for letter in letters]
            made = [(b"%d" % one, b"refused %d" % one) for one in range(number + 1)]
            assert found == [*(payload for both in made for payload in both), b"later"]


def test_letters_for_which_there_is_no_room_are_stored_later(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(b"a", b"b")
    with capture_logs() as logs:
        with stored.outbox.letters.transaction() as letters:
            letters._database.execute("PRAGMA max_page_count=1")  # what it has, it may keep
            big = OF_ONE._replace(error="ValueError: " + "x" * 1_000_000)
        stored.publish(big._replace(arrival=0))
        stored.publish(OF_ONE._replace(arrival=1))
        assert stored.outbox.progress()["run"].chunk == 2
        assert stored.actions.letters(ALL, 10) == []
        with stored.outbox.letters.transaction() as letters:
            letters._database.execute("PRAGMA max_page_count=1000000")
        stored.accept(b"c")
        wait_until(
            lambda: stored.journal.alarm.set(None) or stored.actions.letters(ALL, 10),  # type: ignore[func-returns-value]
            "the letters",
        )
    assert [letter.payload for letter in stored.actions.letters(ALL, 10)] == [b"a", b"b"]
    stored.close()
    assert [log["event"] for log in logs] == ["dead letters wait", "dead letters stored"]


def test_letters_that_are_looked_at_for_long_keep_nobody_waiting(stored: Stored) -> None:
    stored.accept(b"a")
    with stored.outbox.letters.transaction():
        stored.publish(OF_ONE)
        stored.accept(b"b")
        assert stored.journal.end == 2
    wait_until(lambda: stored.actions.letters(ALL, 10), "the letter")
    assert stored.outbox.counters()["letters"] == 1


def test_evidence_is_found_while_more_messages_come(stored: Stored) -> None:
    """Those that are not written yet are not looked at."""
    stored.accept(b"a", b"b")
    with stored.store.writer.changed:
        stored.journal.submit(0, 1, U32.frame(b"c"))
        stored.journal.gather()
        evidence = EvidenceFinder(stored.application, stored.journal, {})
        tally = Tally()
        tally.add_set_aside(OF_ONE._replace(arrival=1))
        stored.outbox.publish("run", [finished(1, tally=tally)._replace(end=2)], evidence)
    wait_until(lambda: stored.actions.letters(ALL, 10), "the letter")
    assert [letter.payload for letter in stored.actions.letters(ALL, 10)] == [b"b"]


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


def test_an_application_may_be_named_instead_of_its_state_directory(tmp_path: Path) -> None:
    app = tmp_path / "lettered.py"
    app.write_text(
        "import wallaroo\n"
        "print('loaded')\n"
        "def application_setup(args):\n"
        "    source = wallaroo.FileSourceConfig('lines.txt', bytes.decode, 'lines')\n"
        "    sink = wallaroo.FileSinkConfig('out.txt', wallaroo.encoder(str))\n"
        "    lines = wallaroo.source('one', source)\n"
        "    return wallaroo.build_application('Lettered', lines.to_sink(sink))\n"
    )
    assert_refused(call("list", str(app)), "lettered is not a state directory: it contains no log")
    state_dir = tmp_path / ".wallaroo" / "lettered"
    state_dir.mkdir(parents=True)
    stored = Stored(state_dir)
    stored.accept(b"hello", b"you")
    stored.publish(OF_ONE._replace(arrival=0), OF_ONE._replace(arrival=1))
    stored.close()
    assert len(call("list", str(app)).stdout.splitlines()) == 2
    assert call("show", str(app), "1", "--payload").stdout_bytes == b"hello"
    assert call("replay", str(app), "1").stdout == "1 replayed\n"
    assert call("drop", str(app), "--all").stdout == "1 dropped\n"
    assert_refused(call("show", "1"), "name the application, or its state directory with --state-d")
    assert_refused(call("show", str(app), "1", "2"), "2 numbers of dead letters; expected one")
    assert_refused(call("drop", str(app), "one"), "'one' is not a valid integer")
    listed = CliRunner().invoke(main, ["log", str(app), "--kind", "messages"])
    assert listed.exit_code == 0, listed.output
    assert listed.stdout


def test_the_command_works_where_the_gateway_is_stopped(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(b"hello", b"you")
    letter = OF_ONE._replace(key="'k'")
    stored.publish(letter._replace(arrival=0), letter._replace(arrival=1))
    with stored.outbox.letters.transaction() as letters:  # as each gateway does
        letters.note_origins(stored.application)
    stored.close()
    see_to_letters(tmp_path)


def test_nothing_is_done_where_one_of_the_numbers_is_none_of_those_chosen(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(b"a")
    stored.publish(OF_ONE._replace(arrival=0))
    stored.close()
    at = ("--state-dir", str(tmp_path))
    for command in ("drop", "replay"):
        assert_refused(call(command, "1", "2", *at), "there is no dead letter 2 in")
        told = call(command, "1", "--pipeline", "two", *at)
        refused = "there is no pipeline 'two'; the pipelines are: 'one'"
        assert_refused(told, refused)  # no gateway has told of it
    assert call("drop", "1", "1", *at).stdout == "1 dropped\n"


def test_what_a_source_refused_is_shown_without_message_place_and_payload(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(bytes(refusal("too long")))
    stored.publish(OF_ONE._replace(arrival=0))
    stored.close()
    at = ("1", "--state-dir", str(tmp_path))
    names = [line.partition(" ")[0] for line in call("show", *at).stdout.splitlines()]
    assert {"message", "place"}.isdisjoint(names)
    assert "payload    none: the source could not take its message" in call("show", *at).stdout
    assert_refused(call("show", *at, "--payload"), "the source could not take its message")
    assert call("replay", *at).stdout == "1 replayed\n"


def test_a_letter_without_a_payload_is_not_replayed_and_that_is_said(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(b"a")
    stored.publish(OF_ONE)
    stored.close()
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
    Stored(tmp_path).close()
    result = call(*arguments, "--state-dir", str(tmp_path))
    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_list_says_that_there_are_more(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(b"a", b"b", b"c")
    stored.publish(*(OF_ONE._replace(arrival=number) for number in range(3)))
    stored.close()
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


def test_a_letter_comes_back_from_json_as_it_was(stored: Stored) -> None:
    stored.accept(b"\xff")
    stored.publish(OF_ONE._replace(arrival=0))
    (letter,) = stored.actions.letters(ALL, 10)
    assert type(letter).from_json(letter.to_json()) == letter
    assert dataclasses.replace(letter, payload=None).to_json()["payload"] is None
