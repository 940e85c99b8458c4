"""What waits in the log belongs to its source or sink by name, wherever that is in the application.

The model keeps everything by name. Each run has sources and sinks in an order of its own, and may
lack some.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import wallaroo
from tests.gateway.harness import U32, finished, opened, outputs, publish
from wallaroo.connectors.kafka.records import unpacked
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.evidence import Evidence
from wallaroo.gateway.dead_letters.letter_outputs import LetterOutputs
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.reading import check_names
from wallaroo.gateway.store import Store
from wallaroo.resolution.application import resolve
from wallaroo.run.state.dead_letters import dead_letter_actions
from wallaroo.wire.records import FailedMessage

SOURCES, SINKS = ("orders", "prices", "clicks"), ("totals", "alerts", "lines")


class Model:
    """What is expected of a store, by names."""

    def __init__(self) -> None:
        self.end = self.processed = self.chunk = 0
        self.unprocessed: list[tuple[str, bytes]] = []
        self.accepted = Counter[str]()
        self.streams = Counter[str]()
        self.keys: dict[str, list[bytes]] = defaultdict(list)
        self.waiting: dict[str, list[bytes]] = defaultdict(list)
        self.published = Counter[str]()

    def lacks(self, sources: list[str], sinks: list[str]) -> str | None:
        """The first source or sink that an application would need and lacks."""
        waits = [*{name for name, _ in self.unprocessed}.difference(sources)]
        waits += [name for name, made in self.waiting.items() if made and name not in sinks]
        return min(waits, key=[*SOURCES, *SINKS].index, default=None)

    def check(self, store: Store, sources: list[str], sinks: list[str]) -> None:
        """Compare with *store*."""
        blocks = store.journal.unprocessed()
        assert [(sources[b.source], b.data) for b in blocks] == self.unprocessed
        for index, name in enumerate(sources):
            stream = StreamName(index, name)
            assert store.journal.accepted.get(index, 0) == self.accepted[name]
            assert store.journal.stream_positions.last(stream) == self.streams[name]
            assert [*store.journal.request_keys(index)] == self.keys[name]
        for index, name in enumerate(sinks):
            assert store.outbox.published_to(index) == self.published[name]
            found, after = [], 0
            while (delivery := store.outbox.next(index, after, 0)) is not None:
                assert delivery.outputs.sink == index
                found.append(delivery.outputs.data)
                after = delivery.position
            assert found == self.waiting[name]
            taken = self.published[name] - len(found)
            assert store.outbox.delivered_to(index) == taken
            assert store.outbox.of_sink(index) == (taken, len(found))

    def accept(self, store: Store, index: int, name: str) -> None:
        """Let a source have a message, in a stream and with the key of a request."""
        self.accepted[name] += 1
        data, key = f"{name}{self.accepted[name]}".encode(), b"%16d" % self.accepted[name]
        stream = StreamName(index, name)
        store.journal.stream_positions.open(stream, Opener(None, "here"))
        request = KeyedRequest(index, key, b"body", 1)
        store.journal.submit(index, 1, data, (stream, self.accepted[name]), None, request)
        assert store.journal.flush(10)
        self.streams[name] = self.accepted[name]
        self.keys[name].append(key)
        self.unprocessed.append((name, data))
        self.end += 1

    def publish(self, store: Store, index: int, name: str, processed: int) -> None:
        """Publish an output, of some of the messages."""
        self.published[name] += 1
        self.chunk += 1
        self.processed += processed
        del self.unprocessed[:processed]
        data = f"{name}{self.published[name]}".encode()
        publish(store, finished(self.chunk, outputs(data, to=index))._replace(end=self.processed))
        store.journal.note_published(self.processed)
        self.waiting[name].append(data)

    def deliver(self, store: Store, index: int, name: str) -> None:
        """Deliver all outputs of a sink."""
        store.outbox.delivered(index, self.published[name])
        self.waiting[name].clear()


@pytest.mark.parametrize("seed", range(40))
def test_all_that_is_in_the_log_keeps_its_name(tmp_path: Path, seed: int) -> None:
    choose, model = random.Random(seed), Model()
    for _ in range(6):
        sources = choose.sample(SOURCES, choose.choice((2, 3, 3, 3)))
        sinks = choose.sample(SINKS, choose.choice((2, 3, 3, 3)))
        if (lacking := model.lacks(sources, sinks)) is not None:
            with pytest.raises(RuntimeFailure, match=f"'{lacking}' to be .*none") as checked:
                check_names(tmp_path / LOG, sources, sinks)
            with (
                pytest.raises(RuntimeFailure) as refused,
                opened(tmp_path, sources=sources, sinks=sinks),
            ):
                pass
            assert str(checked.value) == str(refused.value)
            continue
        check_names(tmp_path / LOG, sources, sinks)
        with opened(tmp_path, sources=sources, sinks=sinks) as store:
            model.check(store, sources, sinks)
            for _ in range(choose.randrange(12)):
                at = choose.randrange(len(sources))
                to = choose.randrange(len(sinks))
                act = choose.randrange(5)
                if act == 0:
                    with store.writer.changed:
                        store.writer.append_snapshot()
                elif act < 3:
                    model.accept(store, at, sources[at])
                elif act == 3:
                    processed = choose.randint(0, len(model.unprocessed))
                    model.publish(store, to, sinks[to], processed)
                    if choose.random() < 0.5:
                        store.journal.consume(model.processed)
                else:
                    model.deliver(store, to, sinks[to])
            model.check(store, sources, sinks)


def opened_for(
    directory: Path, sink: wallaroo.FileSinkConfig[str], *pipelines: str
) -> AbstractContextManager[Store]:
    """The store of an application of *pipelines* that share a sink."""
    builder = wallaroo.ApplicationBuilder("Copy")
    for name in pipelines:
        source = wallaroo.FileSourceConfig(name, bytes.decode, "lines")
        builder.new_pipeline(name, source).to_sink(sink)
    application = resolve(builder.build())
    sources = [source.name for source in application.sources]
    return opened(directory, sources=sources, sinks=[one.name for one in application.sinks])


def test_a_refusal_says_how_a_renamed_source_or_sink_keeps_its_name(tmp_path: Path) -> None:
    sink = wallaroo.FileSinkConfig("out", wallaroo.encoder(str.encode), framing="lines")
    with opened_for(tmp_path, sink, "orders", "prices") as store:
        store.journal.submit(1, 1, b"1")
        assert store.journal.flush(10)
        publish(store, finished(1, outputs(b"out", to=0))._replace(end=0))
    told = "only the name has changed, .named('orders') on the sink keeps it; otherwise start it"
    with (
        pytest.raises(RuntimeFailure, match=re.escape(told)),
        opened_for(tmp_path, sink, "prices", "orders"),
    ):
        pass
    with opened_for(tmp_path, sink.named("orders"), "prices", "orders") as store:
        assert store.outbox.of_sink(0) == (0, 1)
    with (
        pytest.raises(RuntimeFailure, match="has changed, call its pipeline 'prices' again; other"),
        opened_for(tmp_path, sink, "orders", "quotes"),
    ):
        pass


def test_dead_letters_of_outputs_wait_for_their_sink_wherever_it_is(tmp_path: Path) -> None:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("in", wallaroo.FileSourceConfig("in", bytes.decode, "lines"))
    builder.to_sink(wallaroo.FileSinkConfig("out", wallaroo.encoder(str.encode), framing="lines"))
    application = resolve(builder.build(dead_letters=wallaroo.KafkaDeadLetters("lost", "broker")))
    letter = FailedMessage("", "sink in", "output 1", "it is refused", "")
    with opened(tmp_path, sinks=["in", "dead letters"]) as store:
        store.outbox.letter_outputs = LetterOutputs(application)
        publish(store, finished(1, outputs(b"out", to=0))._replace(end=0))
        store.outbox.delivered(0, 1, refused=[RefusedOutput(letter, b"out")])
    with (
        pytest.raises(RuntimeFailure, match="has 1 output for the sink 'dead letters' to be deliv"),
        opened(tmp_path, sinks=["in"]),
    ):
        pass
    with opened(tmp_path, sinks=["new", "in", "dead letters"]) as store:
        assert [store.outbox.of_sink(sink) for sink in range(3)] == [(0, 0), (0, 0), (0, 1)]
        assert [store.outbox.published_to(sink) for sink in range(3)] == [0, 1, 1]
        found = store.outbox.next(2, 0, 0.0)
        assert found is not None
        assert unpacked(found.outputs.data).value == b"out"


def test_messages_that_moved_to_other_offsets_wait_once(tmp_path: Path) -> None:
    with opened(tmp_path, sources=["gone"]) as store:
        for message in (b"lost", b"kept"):
            store.journal.submit(0, 1, message)
        assert store.journal.flush(10)
        store.resume({"moved": [0, "opening"]}, [*store.journal.read(1, 2)])
    with pytest.raises(RuntimeFailure, match="has 1 message of the source 'gone' to be processed"):
        check_names(tmp_path / LOG, ["new"], [])


def test_names_survive_damage_to_the_record_that_has_them(tmp_path: Path) -> None:
    with opened(tmp_path, sources=["one", "two"]) as store:
        store.journal.submit(0, 1, b"1")
        assert store.journal.flush(10)
    with opened(tmp_path, sources=["two", "one"]) as store:
        store.journal.submit(0, 1, b"2")
        assert store.journal.flush(10)
    (file,) = (tmp_path / LOG).iterdir()
    damaged = bytearray(file.read_bytes())
    at = damaged.index(b'{"openings"', damaged.index(b'{"openings"') + 1)
    damaged[at + 3] ^= 1
    file.write_bytes(damaged)
    with opened(tmp_path, sources=["one", "two"], skip_damaged=True) as store:
        blocks = [*store.journal.unprocessed()]
        assert [(b.source, b.data) for b in blocks if b.data] == [(0, b"1"), (1, b"2")]


def test_a_stopped_application_replays_to_the_source_of_that_name(tmp_path: Path) -> None:
    failed = FailedMessage("two", "step", "f.py:1", "ValueError: no", "'m'")
    with (
        opened(tmp_path, sources=["one", "two"]) as store,
        store.outbox.letters.transaction() as letters,
    ):
        evidence = Evidence(5, 4, U32.frame(b"m"))
        letters.take("log", store.journal.end + 1, [Letter(1, "two", failed, evidence)])
    with opened(tmp_path, sources=["two", "one"]):
        pass
    with dead_letter_actions(tmp_path) as actions:
        assert actions.replay_letters(Choice()) == 1
    with opened(tmp_path, sources=["one", "new", "two"]) as store:
        (block,) = store.journal.unprocessed()
        assert (block.source, block.data) == (2, U32.frame(b"m"))


def test_messages_of_a_source_that_is_gone_cannot_be_replayed(tmp_path: Path) -> None:
    failed = FailedMessage("two", "step", "f.py:1", "ValueError: no", "'m'")
    with opened(tmp_path, sources=["one"]) as store:
        with store.outbox.letters.transaction() as letters:
            evidence = Evidence(5, 4, U32.frame(b"m"))
            letters.take("log", store.journal.end + 1, [Letter(1, "two", failed, evidence)])
        actions = StoredDeadLetterActions(store.outbox, store.journal)
        with pytest.raises(RuntimeFailure, match="has no source 'two', of which 1 of the messages"):
            actions.replay_letters(Choice())
        actions.finish_replays()
        assert len(actions.letters(Choice(), 9)) == 1


def test_positions_at_which_no_source_resumes_are_named(tmp_path: Path) -> None:
    with opened(tmp_path, sources=("a", "b")) as store:
        for source, name in enumerate(("a", "b")):
            store.journal.submit_read(source, b"m", Reached(name, b"1"))
        assert store.journal.flush(10)
        store.journal.note_published(2)
        store.journal.consume(2)
        assert store.journal.unread(["b", "new"]) == ["a"]
    assert check_names(tmp_path / LOG, ["b", "new"], []) == ["a"]
