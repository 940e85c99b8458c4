"""A run for the dashboard to show: it reports what a test sets, at the time that the test sets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.dashboard.viewer import Viewer
from tests.helpers import WORD_COUNT
from wallaroo.api.addresses import Address
from wallaroo.dashboard import monitor as watch
from wallaroo.dashboard.monitor import Watch
from wallaroo.dashboard.server import DashboardServer
from wallaroo.engine.realtime.metrics import KnownError
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Distribution, HotKey, Sample
from wallaroo.model.application import Application
from wallaroo.system.restarts import Restart
from wallaroo.testing import load
from wallaroo.wire.chunk_messages import Publication
from wallaroo.wire.look_ups import LookUp

PIPELINE = "Split and Count"
"""The one pipeline of Word Count, which is also the name of its source and its sink."""
START = 1_750_000_000.0
AWAY = "the gateway does not answer"
FAST, SLOW = 0.1, 3.0
"""Upper bounds of the latencies of fast and slow messages, in seconds."""


@dataclass(frozen=True)
class Report:
    """Everything that a run reports at one time."""

    at: float = START
    away: bool = False
    fast: int = 0
    """Messages processed within 0.05 to 0.1 s."""
    slow: int = 0
    """Messages processed within 2 to 3 s."""
    quickest: int = 0
    """Messages processed within 1 ms."""
    slowest: int = 0
    """Messages processed within 600 to 1,800 s."""
    outputs: int = 0
    delivered: int = 0
    backlog: int = 0
    connections: int = 0
    set_aside: int = 0
    late: int = 8
    waited_s: float = 0.5
    """Seconds that the first message of the backlog has waited, if there is one."""
    alive: int = 1
    """Workers of the two that are wanted."""
    query_restarts: int = 0
    problem: str | None = None
    """Why the source fails."""
    waits: str | None = None
    """For which table the source waits."""
    hot_keys: Sequence[HotKey] = ()
    publications: Sequence[Publication] = ()
    errors: Sequence[KnownError] = ()
    more: Sequence[Sample] = ()
    """Samples besides those of Word Count."""
    restarts: Mapping[str, Sequence[Restart]] = field(default_factory=dict)
    interruption: str | None = None
    sink_problem: str | None = None
    """Why the sink's outputs wait."""
    epochs: Distribution | None = None
    """For how long the stream stood at the ends of epochs."""

    @property
    def accepted(self) -> int:
        return self.processed + self.set_aside + self.backlog

    @property
    def processed(self) -> int:
        return self.quickest + self.fast + self.slow + self.slowest

    def status(self) -> GatewayStatus:
        source = SourceStatus(PIPELINE, "127.0.0.1:7010", self.accepted, self.backlog)
        source = replace(source, waits=self.waits)
        if self.problem is not None:
            source = replace(source, failures=1, problem=self.problem)
        return GatewayStatus(
            sources=(source,),
            sinks=(SinkStatus(PIPELINE, "127.0.0.1:7002", self.sink_problem),),
            connections=self.connections,
            backlog=self.backlog,
            backlog_bytes=100 * self.backlog,
            waited_s=self.waited_s if self.backlog else 0.0,
            undelivered=self.outputs - self.delivered,
            waits_for_time=False,
            published=self.outputs,
            delivered=self.delivered,
            set_aside=self.set_aside,
            unknown_key=7,
            late=self.late,
            dead_letters=self.set_aside,
        )

    def samples(self) -> list[Sample]:
        latencies = [0] * (len(catalogue.LATENCY_BOUNDS_S) + 1)
        latencies[catalogue.LATENCY_BOUNDS_S.index(FAST)] = self.fast
        latencies[catalogue.LATENCY_BOUNDS_S.index(SLOW)] = self.slow
        latencies[0], latencies[-2] = self.quickest, self.slowest
        processed = self.processed
        decoder, encoder = (PIPELINE, "decoder"), (PIPELINE, "encoder")
        split, count = (PIPELINE, "split into words"), (PIPELINE, "Count Word")
        return [
            *self._of_epochs(),
            Sample(catalogue.LATENCY, (PIPELINE,), Distribution(tuple(latencies), 0.0)),
            Sample(catalogue.SOURCE_MESSAGES, (PIPELINE,), self.accepted),
            Sample(catalogue.SINK_MESSAGES, (PIPELINE,), self.delivered),
            Sample(catalogue.SINK_WAITING, (PIPELINE,), self.outputs - self.delivered),
            Sample(catalogue.STEP_MESSAGES, decoder, processed + self.set_aside),
            Sample(catalogue.STEP_RESULTS, decoder, processed),
            Sample(catalogue.SET_ASIDE, decoder, self.set_aside),
            Sample(catalogue.STEP_MESSAGES, split, processed),
            Sample(catalogue.STEP_RESULTS, split, self.outputs),
            Sample(catalogue.STEP_SECONDS, split, Distribution((4,), 20e-6)),
            Sample(catalogue.STEP_MESSAGES, count, self.outputs),
            Sample(catalogue.STEP_RESULTS, count, self.outputs),
            Sample(catalogue.STEP_RESULTS, encoder, self.outputs),
            Sample(catalogue.STATE_ENTITIES, ("word totals",), 26),
            Sample(catalogue.WORKERS_WANTED, (), 2),
            Sample(catalogue.WORKERS_ALIVE, (), self.alive),
            Sample(catalogue.PUBLICATION_AGE, (), 1.5),
            Sample(catalogue.QUERY_RESTARTS, (), self.query_restarts),
            *self.more,
        ]

    def _of_epochs(self) -> list[Sample]:
        if self.epochs is None:
            return []
        age = Sample(catalogue.EPOCH_AGE, (), 9.0)
        return [Sample(catalogue.EPOCH_SECONDS, (), self.epochs), age]


class Feed:
    """Reports what the last call of `set` gave, and stands in for the module `time` of the watch.

    A poll sees one report and its time together, no matter when the test sets the next one.
    """

    def __init__(self) -> None:
        self.gateway = self.engine = self.figures = self
        self.dead_letters = Letters(self)
        self.letters = self.dead_letters.letters
        self.replay_letters = self.dead_letters.replay_letters
        self.drop_letters = self.dead_letters.drop_letters
        self.pause = Pausing(self)
        self.explained = Explaining("app", ("--most", "5"), Path("/state"))
        self.entities: list[dict[str, Any]] = []
        """What looking up the key `z`, or any page, yields."""
        self.asked: list[Sequence[LookUp]] = []
        """What was looked up, call by call."""
        self.explain: Callable[[str], dict[str, str]] = lambda key: {"text": f"of {key}"}
        """What the gateway says about a key."""
        self._next = self._polled = Report()

    def explaining(self) -> Explaining:
        return self.explained

    def history(self, key: str) -> dict[str, str]:
        self.check()
        return self.explain(key)

    def set(self, seconds: float = 0.0, **changes: Any) -> None:
        """Report *changes* from *seconds* after the last report on."""
        self._next = replace(self._next, at=self._next.at + seconds, **changes)

    def check(self) -> None:
        """Fail like a gateway that is away."""
        if self._next.away:
            raise RuntimeFailure(AWAY)

    def time(self) -> float:
        return self._next.at if self._next.away else self._polled.at

    def monotonic(self) -> float:
        return self._next.at

    def status(self) -> GatewayStatus:
        self.check()
        self._polled = self._next
        return self._polled.status()

    def samples(self) -> list[Sample]:
        self.check()
        return self._polled.samples()

    def hot_keys(self) -> Sequence[HotKey]:
        return self._polled.hot_keys

    def publications(self) -> Sequence[Publication]:
        return self._polled.publications

    def errors(self) -> Sequence[KnownError]:
        return self._polled.errors

    def restarts(self) -> Sequence[Restart]:
        return self._polled.restarts.get("query", ())

    def gateway_restarts(self) -> Sequence[Restart]:
        return self._polled.restarts.get("gateway", ())

    def interruption(self) -> str | None:
        return self._polled.interruption

    def look_up(self, asked: Sequence[LookUp]) -> Sequence[dict[str, Any]]:
        self.check()
        self.asked.append(asked)
        return [
            {"found": self.entities if one.key in {"z", None} else [], "position": 7, "next": None}
            for one in asked
        ]


@dataclass
class Pausing:
    """Pauses a feed, as far as a test is concerned."""

    feed: Feed
    since: float | None = None
    stopping: bool = False

    def pause(self, by: str) -> bool:
        assert by == "127.0.0.1"
        self._check()
        changed, self.since = self.since is None, self.since or self.feed.monotonic()
        return changed

    def resume(self, by: str) -> bool:
        assert by == "127.0.0.1"
        self._check()
        changed, self.since = self.since is not None, None
        return changed

    def _check(self) -> None:
        if self.stopping:
            msg = "the run is stopping"
            raise RuntimeFailure(msg)


@dataclass
class Letters:
    """The dead letters of a feed."""

    feed: Feed
    kept: list[DeadLetter] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)

    def add(self, payload: bytes | None, **fields: Any) -> None:
        """Keep a dead letter with the next number."""
        number = len(self.kept) + 1
        letter = DeadLetter(
            *(number, 1_000_000_000 * number, None, PIPELINE, PIPELINE, "decoder"),
            *(
                "application.py:52",
                "UnicodeDecodeError: byte 0xff",
                repr(payload),
                None,
                "",
                payload,
            ),
        )
        self.kept.append(replace(letter, **fields))

    def letters(self, choice: Choice, most: int) -> list[DeadLetter]:
        return self._chosen(choice)[-most:]

    def letter_origins(self) -> Origins:
        return Origins([PIPELINE], [PIPELINE])

    def drop_letters(self, choice: Choice) -> int:
        return self._remove(self._chosen(choice))

    def replay_letters(self, choice: Choice) -> int:
        replayable = [letter for letter in self._chosen(choice) if letter.payload is not None]
        self.replayed += [letter.id for letter in replayable]
        return self._remove(replayable)

    def _chosen(self, choice: Choice) -> list[DeadLetter]:
        self.feed.check()
        return [letter for letter in self.kept if choice.ids is None or letter.id in choice.ids]

    def _remove(self, chosen: list[DeadLetter]) -> int:
        self.kept = [letter for letter in self.kept if letter not in chosen]
        return len(chosen)


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that is served."""

    watch: Watch
    server: DashboardServer
    viewer: Viewer


@contextlib.contextmanager
def serving(
    feed: Feed,
    token: str | None = None,
    host: str = "127.0.0.1",
    names: Sequence[str] = (),
    application: Application | None = None,
) -> Iterator[Dashboard]:
    """The dashboard of *feed*, whose application is Word Count unless it is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "time", feed)
        polled = Watch(application or load(WORD_COUNT), cast("Any", feed))
        server = DashboardServer(Address(host, "0"), polled, token, names)
        try:
            yield Dashboard(polled, server, Viewer(server.url))
        finally:
            polled.stop()
            server.close()
