"""The states that a dashboard can show, each as a feed with some minutes of history."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import wallaroo
from tests.applications.counting import as_line, decode
from tests.dashboard.feed import PIPELINE, START, Dashboard, Feed, serving
from wallaroo.engine.realtime.metrics import KnownError
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Distribution, HotKey, Sample
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.system.restarts import Restart
from wallaroo.wire.chunk_messages import Publication
from wallaroo.wire.records import FailedMessage

TOKEN = "let me change things"
WINDOWED = "Readings"
"""The pipeline, source and sink of `windowed`."""
WIDE_NAME = "WWWWWMMMMM_WWWWWMMMMM_WW"
"""As long as names in the graph can be, with the widest letters."""
LONG = "ValueError: the reading of the sensor in the north wing is not a number but 'n/a'"


class Latest(wallaroo.Aggregation[str, list[str], str]):
    """The messages of a window."""

    def initial_accumulator(self) -> list[str]:
        return []

    def update(self, message: str, accumulator: list[str]) -> None:
        accumulator.append(message)

    def combine(self, one: list[str], other: list[str]) -> list[str]:
        return one + other

    def output(self, key: str, accumulator: list[str]) -> str:
        return f"{key}: {accumulator}"


@contextmanager
def shown(feed: Feed, application: Application | None = None) -> Iterator[Dashboard]:
    """The dashboard of *feed* once it has polled what the feed reports last."""
    with serving(feed, TOKEN, application=application) as dashboard:
        dashboard.viewer.snapshot(feed.monotonic())
        yield dashboard


def play(feed: Feed, dashboard: Dashboard, seconds: int = 180) -> None:
    """Let messages flow, faster and slower, with a point every ten seconds."""
    fast = slow = outputs = 0
    for second in range(10, seconds + 10, 10):
        fast += int(9_000 + 4_000 * math.sin(second / 20))
        slow += 400 if 60 < second < 100 else 20
        outputs = 3 * (fast + slow)
        feed.set(10, fast=fast, slow=slow, outputs=outputs, delivered=outputs - 12, alive=2)
        dashboard.viewer.snapshot(feed.monotonic())


def busy(feed: Feed, dashboard: Dashboard) -> None:
    """Everything works, with hot keys and publications."""
    feed.set(
        connections=3,
        hot_keys=[
            HotKey("word totals", repr(letter), 4_000.0 / (n + 1), round(0.35 / (n + 1), 4))
            for n, letter in enumerate([*"tashwob", "a long key " * 8])
        ],
        publications=[Publication(n, 1, 900 + 10 * n, START, 0.003, 0.0012) for n in range(40, 60)],
    )
    play(feed, dashboard)


def failing(feed: Feed, dashboard: Dashboard) -> None:
    """Code raises, the sink is away, and query and gateway were restarted."""
    busy(feed, dashboard)
    errors = [
        KnownError(
            _failed("decoder", "application.py:52", "UnicodeDecodeError: byte 0xff"),
            *(12_345, START + 5, START + 178),
        ),
        KnownError(
            _failed("split into words", "a/long/path/to/words.py:1170", LONG),
            *(1, START + 60, START + 60),
        ),
    ]
    for number in range(3):
        feed.dead_letters.add(b"\xff<b>" * (number + 1), traceback="Traceback\n  ValueError")
    feed.set(
        1,
        errors=errors,
        set_aside=12_346,
        delivered=100,
        sink_problem="Connection refused",
        query_restarts=2,
        restarts={
            "query": [Restart(START + 30, "the process of partition 1 was killed by SIGKILL")],
            "gateway": [Restart(START + 90, "it ended with exit code 1: the disk is full")],
        },
    )
    dashboard.viewer.snapshot(feed.monotonic())


def overloaded(feed: Feed, dashboard: Dashboard) -> None:
    """Messages arrive faster than they are processed."""
    busy(feed, dashboard)
    for number in range(1, 7):
        feed.set(10, backlog=400_000 * number, waited_s=20.0 * number, slow=2_000 * number)
        dashboard.viewer.snapshot(feed.monotonic())


def paused(feed: Feed, dashboard: Dashboard) -> None:
    """The run is paused, and messages wait."""
    busy(feed, dashboard)
    feed.pause.since = feed.monotonic()
    for number in range(1, 7):
        feed.set(10, backlog=1_000 * number, waited_s=10.0 * number)
        dashboard.viewer.snapshot(feed.monotonic())


def starting(feed: Feed, dashboard: Dashboard) -> None:
    """The source waits for a table."""
    feed.set(10, waits="waits for table 'Dates' (1,234 records left)", alive=2)
    dashboard.viewer.snapshot(feed.monotonic())


def recovered(feed: Feed, dashboard: Dashboard) -> None:
    """The gateway was away for two minutes, and what has waited is processed."""
    feed.set(quickest=2_000_000)
    failing(feed, dashboard)
    feed.set(1, away=True)
    for _ in range(12):
        feed.set(10)
        dashboard.viewer.snapshot(feed.monotonic())
    for number in range(1, 7):
        feed.set(
            10,
            away=False,
            backlog=6_000_000 - 1_000_000 * number,
            waited_s=86_340.0,
            slowest=500_000 * number,
            sink_problem=None,
        )
        dashboard.viewer.snapshot(feed.monotonic())


def windowed() -> Application:
    """An application with windows."""

    @wallaroo.decoder(header_length=4, length_fmt=">I")
    def decode(payload: bytes) -> str:
        return payload.decode()

    @wallaroo.encoder
    def encode(output: str) -> bytes:
        return output.encode()

    def sensor(message: str) -> str:
        return message[:1]

    readings = wallaroo.source(WINDOWED, wallaroo.TCPSourceConfig("", 7010, decode))
    minutes = wallaroo.range_windows(wallaroo.minutes(1)).over(Latest)
    return resolve(
        wallaroo.build_application(
            "Windows",
            readings.key_by(sensor)
            .to(minutes)
            .to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)),
        )
    )


def with_windows(feed: Feed, application: Application, *, late: int = 0) -> None:
    """Let *feed* report windows that are open, and *late* messages."""
    (state,) = (name for name, part in application.partitions.items() if part.windows)
    (step,) = (step.name for step in application.pipelines[0].trunk.walk())
    feed.set(
        late=late,
        more=[
            Sample(catalogue.LATENCY, (WINDOWED,), no_latencies()),
            Sample(catalogue.OPEN_WINDOWS, (state,), 1_234),
            Sample(catalogue.STATE_ENTITIES, (state,), 56),
            Sample(catalogue.WATERMARK, (state,), START - 90),
            Sample(catalogue.LATE, (WINDOWED, step), late),
            Sample(catalogue.STEP_MESSAGES, (WINDOWED, step), 5_000),
            Sample(catalogue.STEP_SECONDS, (WINDOWED, step), Distribution((4,), 20e-6)),
        ],
    )


def large(feed: Feed) -> Application:
    """An application of many pipelines whose names have wide letters; *feed* reports much of it."""
    computation = wallaroo.computation(name=WIDE_NAME)(str)
    minutes = wallaroo.range_windows(wallaroo.minutes(1)).over(Latest)

    def key(line: str) -> str:
        return line

    key.__name__ = WIDE_NAME
    builder, more = wallaroo.ApplicationBuilder("Large"), []
    for number in range(6):
        name = f"{WIDE_NAME} {number}"
        builder.new_pipeline(name, wallaroo.TCPSourceConfig("", 0, decode))
        builder.to(computation).to_windows(minutes, name, wallaroo.partition(key))
        builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, as_line))
        more += [
            Sample(catalogue.LATENCY, (name,), no_latencies()),
            Sample(catalogue.SET_ASIDE, (name, "Latest"), 123_456),
            Sample(catalogue.LATE, (name, "Latest"), 123_456),
            Sample(catalogue.STEP_SECONDS, (name, "Latest"), Distribution((4,), 0.02)),
            Sample(catalogue.OPEN_WINDOWS, (name,), 123_456),
            Sample(catalogue.STATE_ENTITIES, (name,), 123_456),
        ]
    feed.set(more=more)
    return resolve(builder.build())


def no_latencies() -> Distribution:
    """The latencies of no message."""
    return Distribution((0,) * (len(catalogue.LATENCY_BOUNDS_S) + 1), 0.0)


def _failed(step: str, place: str, error: str) -> FailedMessage:
    return FailedMessage(PIPELINE, step, place, error, "b'\\xff<b> and so on, for a while'", "'n'")
