"""Look-ups of a running query: each entity is as of the position that is told, and published."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests.engine.realtime.harness import (
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.engine.realtime.texts import decode, encode
from tests.helpers import wait_until
from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime import feed as feed_module
from wallaroo.engine.realtime import look_ups as answers
from wallaroo.engine.realtime.feed import NO_QUERY, Feed
from wallaroo.engine.realtime.look_ups import LookUps
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.wire.chunk_messages import DRIVER, Hello
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.look_ups import LookUp, pack_ask, pages_in

KEYS = "abcdefgh"
SHORT_EPOCHS = Pace(gap_s=0.0, quiet_s=0.0, epoch_first_s=0.02, epoch_least_s=0.05)
LONG_EPOCHS = Pace(gap_s=0.0, quiet_s=60.0, epoch_first_s=60.0)
"""So that what was published is applied at each start."""


class Seen:
    def __init__(self) -> None:
        self.count = 0


@wallaroo.key_extractor
def itself(message: str) -> str:
    return message


@wallaroo.key_extractor
def following(message: str) -> str:
    return KEYS[(KEYS.index(message) + 1) % len(KEYS)]


@wallaroo.state_computation(name="first", state=Seen)
def first(message: str, seen: Seen) -> str:
    seen.count += 1
    return message


@wallaroo.state_computation(name="second", state=Seen)
def second(message: str, seen: Seen) -> str:
    seen.count += 1
    return message


def counting() -> Application:
    """Counts messages by their key, and then, on the next level, by the key after that."""
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
    counted = stream.key_by(itself).to(first).key_by(following).to(second)
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    return resolve(wallaroo.build_application("Counting", counted.to_sink(sink)))


class Reader(threading.Thread):
    """Looks entities up for as long as it lives."""

    def __init__(self, queries: list[RunningQuery], seed: int) -> None:
        super().__init__(daemon=True)
        self._queries, self._choose = queries, random.Random(seed)
        self.found: list[dict[str, Any]] = []
        self.problems = Counter[str]()
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            asked = [
                LookUp("first", self._choose.choice(KEYS)),
                LookUp(None, self._choose.choice(KEYS)),
                LookUp("second", most=self._choose.randint(1, 9)),
            ]
            try:
                results = self._queries[-1].feed.look_up(asked)
            except RuntimeFailure as error:
                self.problems[str(error)] += 1
                time.sleep(0.001)  # the query is away
                continue
            for result in results:
                self.found += result["found"]
                assert all(one["position"] >= result["position"] for one in result["found"])


def has_more(readers: list[Reader], before: int) -> bool:
    return sum(len(one.found) for one in readers) > before + 100


def check(found: list[dict[str, Any]], sent: list[str]) -> None:
    """Fail unless each entity in *found* has seen just the messages before its position."""
    for one in found:
        before = Counter(sent[: one["position"]])
        key = one["key"]
        if one["state"] == "second":
            key = KEYS[KEYS.index(key) - 1]
        assert one["entity"]["count"] == before[key]


@pytest.mark.parametrize("pace", [SHORT_EPOCHS, LONG_EPOCHS])
@pytest.mark.parametrize(("partitions", "state_bytes"), [(1, 0), (3, 0), (3, 1)])
def test_an_entity_has_seen_all_messages_before_its_position_and_none_after(
    tmp_path: Path, partitions: int, state_bytes: int, pace: Pace
) -> None:
    application, store, choose = counting(), Store(), random.Random(partitions)
    sent = [choose.choice(KEYS) for _ in range(3_000)]
    queries, readers = list[RunningQuery](), list[Reader]()
    with gateway_side(tmp_path, application, pace) as gateway:
        for attempt, start in enumerate(range(0, len(sent), 1_000), 1):
            piece, found = sent[start : start + 1_000], sum(len(one.found) for one in readers)
            with RunningQuery(
                gateway,
                application,
                store,
                tmp_path / "checkpoint",
                attempt,
                partitions,
                state_bytes=state_bytes,
            ) as query:
                queries.append(query)
                while len(readers) < 2:
                    readers.append(Reader(queries, len(readers)))
                    readers[-1].start()
                for message in piece:
                    submit(gateway, application, [("in", message.encode())])
                if start + 1_000 == len(sent):
                    wait_until_processed(gateway, len(sent))
                wait_until(partial(has_more, readers, found), "look-ups to be answered")
                # and then the query is cut off, at any moment
        for reader in readers:
            reader.ended = True
            reader.join()
    for reader in readers:
        check(reader.found, sent)
        assert set(reader.problems) <= {NO_QUERY}
    assert max(one["position"] for one in readers[0].found) > 1_000


def test_without_processes_it_is_told_to_try_again(tmp_path: Path) -> None:
    with gateway_side(tmp_path, counting()) as gateway:
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, 1), lambda _: None)
        with pytest.raises(RuntimeFailure, match="starting, or being started again"):
            feed.look_up([LookUp("first", "a")])
    wait_until(lambda: feed.failure, "the end of the query")
    with pytest.raises(RuntimeFailure, match="starting, or being started again"):
        feed.look_up([LookUp("first", "a")])
    feed.close()


def test_processes_that_do_not_answer_are_told_and_their_answer_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, is_there = threading.Event(), threading.Event()

    @wallaroo.state_computation(name="first", state=Seen)
    def hangs(message: str, seen: Seen) -> str:
        is_there.set()
        may_go_on.wait()
        seen.count += 1
        return message

    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    counted = stream.key_by(itself).to(hangs).to_sink(sink)
    application = resolve(wallaroo.build_application("Hanging", counted))
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "checkpoint", 1, 1) as query,
    ):
        submit(gateway, application, [("in", b"a")])
        is_there.wait()
        with monkeypatch.context() as patched:
            patched.setattr(feed_module, "_ANSWER_S", 0.1)
            with pytest.raises(RuntimeFailure, match="do not answer: a step"):
                query.feed.look_up([LookUp("first", "a")])
        may_go_on.set()
        wait_until_processed(gateway, 1)
        (result,) = query.feed.look_up([LookUp("first", "a")])
    assert [(one["entity"]["count"], one["position"]) for one in result["found"]] == [(1, 1)]


@contextmanager
def answering(entities: dict[Any, Any]) -> Iterator[tuple[LookUps, FrameSocket, FrameSocket]]:
    """What answers look-ups of *entities*, and the other ends of its gateway and its Java."""
    gateway, to_gateway = map(FrameSocket, socket.socketpair())
    java, to_java = map(FrameSocket, socket.socketpair())
    try:
        program = Program(counting(), 8)
        yield LookUps(program, Bucket([entities, {}]), to_gateway, to_java), gateway, java
    finally:
        for one in (gateway, to_gateway, java, to_java):
            one.close()


def answered(look_ups: LookUps, gateway: FrameSocket, java: FrameSocket) -> list[list[Any]]:
    """The entities of each page of the one answer that comes between chunks."""
    found = list[bytes]()
    while not found:
        java.send(b"a chunk")
        assert look_ups.next_frame() == b"a chunk"
        found += gateway.arrived()
    (answer,) = found
    return [[json.loads(one.text)["entity"] for one in page.found] for page in pages_in(answer)]


def test_of_look_ups_with_much_to_tell_the_first_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "PAGE_BYTES", 1_000)
    with answering(dict.fromkeys(KEYS, "x" * 600)) as (look_ups, gateway, java):
        look_ups.begin()
        gateway.send(*pack_ask(1, [LookUp("first", key) for key in KEYS]))
        assert [len(page) for page in answered(look_ups, gateway, java)] == [1, 1]


def test_nothing_is_answered_before_all_that_is_published_is_in_the_entities() -> None:
    entities = dict[Any, Any]()
    with answering(entities) as (look_ups, gateway, java):
        gateway.send(*pack_ask(1, [LookUp("first", "a")]))
        for frame in (b"opens a bucket", b"applies changes"):
            java.send(frame)
            assert look_ups.next_frame() == frame
        entities["a"] = 7
        look_ups.begin()
        assert answered(look_ups, gateway, java) == [[7]]
