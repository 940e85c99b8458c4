"""What steps declare of timers and expiry, and how it is shown and refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import wallaroo
from wallaroo.api.timers import CallTimers
from wallaroo.cli.check import _lines
from wallaroo.errors import ApplicationError
from wallaroo.graphs.graph import graph_of
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

NS = wallaroo.nanoseconds(1)


class Count:
    def __init__(self) -> None:
        self.calls = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.encoder
def encode(text: str) -> bytes:
    return text.encode()


@wallaroo.partition
def whole(text: str) -> str:
    return text


def length(text: str) -> int:
    return len(text)


def called(_name: str, count: Count, timers: wallaroo.Timers) -> tuple[str, bool]:
    return f"{timers.key}! {count.calls}", True


def remind(text: str, count: Count, timers: wallaroo.Timers) -> tuple[None, bool]:
    count.calls += 1
    timers.set_after(10)
    return None, True


def note(text: str, count: Count) -> tuple[str, bool]:
    count.calls += 1
    return f"{text} {count.calls}", False


def building(*steps: Any) -> Application:
    """An application with a pipeline for each step, over one state."""
    builder = wallaroo.ApplicationBuilder("Shared")
    for number, step in enumerate(steps):
        builder.new_pipeline(f"p{number}", wallaroo.TCPSourceConfig("", 0, decode))
        builder.to_state_partition(step, Count, "counts", whole)
        builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, encode))
    return resolve(builder.build())


def timed(name: str = "remind", **options: Any) -> Any:
    return wallaroo.state_computation(name, on_timer=called, **options)(remind)  # type: ignore[no-untyped-call]


def plain(name: str = "note", **options: Any) -> Any:
    return wallaroo.state_computation(name, **options)(note)  # type: ignore[no-untyped-call]


def test_a_state_that_pipelines_share_calls_timers_in_the_pipeline_that_declares_them() -> None:
    made = building(timed(), plain(ttl=timedelta(seconds=1)))
    sent = [("p0", b"a", 5), ("p1", b"a", 6), ("p1", b"a", 20)]
    result = simulate(made, sent, until_ns=2 * 10**9)
    assert result.by_sink == {"p0": [b"a! 2"], "p1": [b"a 2", b"a 3"]}
    assert result.state == {"counts": {}}


def test_check_and_graph_say_what_a_state_has() -> None:
    made = building(timed(ttl=wallaroo.minutes(2), event_time=length))
    *_, state = _lines(made, 0)
    assert state == (
        "  state 'counts': any key, timers of step 'remind', entities expire after 120 s, by event "
        "time"
    )
    graph = graph_of(made)
    assert [state.detail for state in graph.states] == ["Count · any key · ttl 2 min"]
    (group,) = graph.groups
    assert "timers call called" in {node.detail for node in group.nodes}


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ((timed("a"), timed("b")), "state 'counts' has timers of another step at test_state_"),
        (
            (plain(ttl=NS * 5), plain(ttl=NS * 6)),
            "the ttl of state 'counts' is 6 ns here, but 5 ns at",
        ),
        ((timed(), plain(ttl=NS, event_time=length)), "state 'counts' has event_time at"),
        ((wallaroo.state_computation("x", on_timer=called)(note),), "(message, state, timers)"),  # type: ignore[arg-type]
        ((wallaroo.state_computation("x", on_timer=len)(remind),), "(name, state, timers)"),  # type: ignore[arg-type]
        ((wallaroo.state_computation("x", on_timer=7)(remind),), "on_timer is 7; expected"),  # type: ignore[call-overload]
        ((plain(ttl=NS, event_time=note),), "event_time is called with (message)"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(steps: Any, sentence: str) -> None:
    with pytest.raises(ApplicationError) as refused:
        building(*steps)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: plain(ttl=0), "the ttl is 0 ns; it must be positive"),
        (
            lambda: plain(ttl=1.5),
            r"the ttl is 1\.5, without a unit; write wallaroo\.seconds\(1\.5\)",
        ),
        (lambda: plain(ttl=3600), "the ttl is 3600, without a unit"),
        (lambda: plain(event_time=length), "event_time has no effect without ttl or on_timer"),
        (lambda: wallaroo.Timers().set_after(-1), "the duration is -1 ns; it must not be negative"),
        (lambda: wallaroo.Timers().set_at(1.5), r"the time is 1\.5; expected an int"),  # type: ignore[arg-type]
        (lambda: wallaroo.Timers().set_after(1.5), r"the duration is 1\.5, without a unit; write"),  # type: ignore[arg-type]
        (lambda: wallaroo.Timers().set_after(True), "the duration is True; expected a duration"),
        (
            lambda: wallaroo.Timers().set_at(datetime(2026, 1, 1)),
            r"the time is .*, without a time zone",
        ),
        (lambda: wallaroo.Timers().cancel(3), "name of the timer is 3; expected a str"),  # type: ignore[arg-type]
        (
            lambda: CallTimers("a", 5, {}, in_timer=True).set_after(7),
            r"would be called again after 7 ns; .* at least 1 ms ahead",
        ),
    ],
)
def test_wrong_times_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()


def test_timers_take_dates_and_end_with_their_call() -> None:
    timers = CallTimers("a", 0, {}, in_timer=False)
    timers.set_at(datetime(1970, 1, 1, 0, 0, 2, 1, tzinfo=UTC))
    assert timers.due() == 2_000_001_000
    timers.end()
    with pytest.raises(RuntimeError, match="only be used during the call that received them"):
        timers.set_after(1)
