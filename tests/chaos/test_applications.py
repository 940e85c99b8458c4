"""The applications of the chaos tests put out each message once, and miss what is wrong."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import wallaroo
from tests.chaos.ledger import Ledger
from tests.chaos.logs import FilesTraffic, Line
from tests.chaos.system import KEYS, PRELOADED, STREAMS, preloaded
from tests.chaos.traffic import MarketSpreadTraffic, WordCountTraffic, traffic_of
from tests.chaos.turn import (
    APPLICATIONS,
    FILES,
    FILES_WITH_TOPICS,
    MARKET_SPREAD,
    MEETING,
    PARTITIONS,
    WITH_LOGS,
    WORD_COUNT,
)
from wallaroo.testing import load, simulate

TWO_SOURCES = ["--in", "127.0.0.1:0,127.0.0.1:0", "--out", "127.0.0.1:1"]
ADDRESSES = ["--in", "127.0.0.1:0", "--out", "127.0.0.1:1"]
MESSAGES = 500
MOST_MS = 400
"""Longest time between two messages: keys are silent for shorter and longer than sessions last."""


@pytest.mark.parametrize("name", [name for name in APPLICATIONS if name not in WITH_LOGS])
def test_each_message_is_put_out_once(name: str) -> None:
    chance, ledger, now_ns = random.Random(name), Ledger(), wallaroo.hours(500_000)
    application = load(str(APPLICATIONS[name]), ADDRESSES)
    (source,) = application.sources
    sent: list[tuple[str, bytes, int]] = []
    for _ in range(MESSAGES):
        now_ns += wallaroo.milliseconds(chance.randint(0, MOST_MS))
        sent.append((source.name, ledger.next(f"k{chance.randrange(3)}"), now_ns))
    simulation = simulate(application, sent, until_ns=now_ns + wallaroo.seconds(10))
    assert (simulation.set_aside, simulation.late) == ([], [])
    ledger.note(simulation.outputs)
    assert ledger.wait_for_all(0.0)
    verdict = ledger.judge()
    assert verdict.messages == MESSAGES
    assert verdict.wrong == []


@pytest.mark.parametrize("name", [FILES, MEETING, PARTITIONS])
def test_messages_of_several_logs_are_right_in_the_order_of_time(name: str) -> None:
    assert _wrong_of_logs(name, lambda lines: lines) == []


@pytest.mark.parametrize(
    ("name", "kind"), [(FILES, "lost"), (MEETING, "miscounted"), (PARTITIONS, "lost")]
)
def test_one_log_before_the_others_fails(name: str, kind: str) -> None:
    wrong = _wrong_of_logs(name, lambda lines: sorted(lines, key=lambda line: line[0]))
    assert [reason for reason in wrong if kind in reason]


def _wrong_of_logs(name: str, order: Callable[[list[Line]], list[Line]]) -> list[str]:
    """What is wrong if the lines of all logs come in this *order*."""
    traffic = traffic_of(name)
    assert isinstance(traffic, FilesTraffic)
    ledger = Ledger(entries=traffic.entries)
    file = {**APPLICATIONS, **FILES_WITH_TOPICS}[name]
    application = load(str(file), [*ADDRESSES, "--read", "t", "--brokers", "127.0.0.1:2"])
    sources = [source.name for source in application.sources if source.name != "Port"]
    lines = [line for _ in range(100) for line in traffic.tick(ledger)] + traffic.close()
    sent = [(sources[log % len(sources)], line) for log, line in order(lines)]
    ledger.note(simulate(application, sent).outputs)
    ledger.wait_for_all(0.0)
    verdict = ledger.judge()
    assert verdict.messages > 500
    return verdict.wrong


def test_no_word_counts_as_seen_before_the_first_line() -> None:
    traffic = WordCountTraffic()
    ledger = Ledger(preloaded(0), traffic.entries)
    application = load(str(FILES_WITH_TOPICS[WORD_COUNT]), ADDRESSES)
    (source,) = application.sources
    names = [f"s{stream}k{key}" for stream in range(STREAMS) for key in range(KEYS)]
    lines = [traffic.message(ledger, name)[1] for name in names]
    ledger.note(simulate(application, [(source.name, line) for line in lines]).outputs)
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == []
    assert [preloaded(2)(key) for key in ("p0", "p1", "p2", "ps0k7")] == [PRELOADED] * 2 + [0] * 2


def test_each_word_of_word_count_is_judged() -> None:
    traffic = WordCountTraffic()
    ledger = Ledger(entries=traffic.entries)
    application = load(str(FILES_WITH_TOPICS[WORD_COUNT]), ADDRESSES)
    (source,) = application.sources
    lines = [traffic.message(ledger, f"s{number % 3}k7")[1] for number in range(30)]
    outputs = simulate(application, [(source.name, line) for line in lines]).outputs
    assert len(outputs) == 2 * len(lines)
    ledger.note(outputs)
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == []
    key, payload = traffic.message(ledger, "s0k7")
    again = simulate(application, [(source.name, line) for line in [*lines, payload, payload]])
    ledger.note(again.outputs[len(outputs) :])
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == [
        f"message 12 of key {word.decode()}, which was never sent, was doubled"
        for word in payload.split()
    ]
    assert payload.startswith(key)


def test_each_order_and_quote_of_market_spread_is_judged() -> None:
    traffic = MarketSpreadTraffic()
    ledger = Ledger(entries=traffic.entries)
    application = load(str(FILES_WITH_TOPICS[MARKET_SPREAD]), TWO_SOURCES)
    orders, quotes = application.sources

    def order(name: str) -> tuple[str, bytes]:
        return orders.name, traffic.message(ledger, name)[1]

    def quote(name: str) -> tuple[str, bytes]:
        return quotes.name, traffic.quote(ledger, name)[1]

    sent = [order("a"), quote("a"), quote("a"), order("a"), order("b"), quote("a")]
    outputs = simulate(application, sent).outputs
    ledger.note(outputs)
    assert len(outputs) == 3
    assert not ledger.wait_for_all(0.0)  # no result has told of the last quote
    sent += [order("a"), order("a")]
    third, fourth = simulate(application, sent).outputs[3:]
    ledger.note([third, fourth])
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == []
    again = [sent[1], order("a"), quote("a"), order("a")]  # the first quote, after later ones
    ledger.note(simulate(application, again).outputs)
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == ["message 1 of key quotes-of-A was doubled"]


def test_a_timer_at_another_time_fails() -> None:
    timers = _module("timers")
    gathered, message, key = timers.Gathered(), {"name": "k", "number": 1}, ("k", None)
    message |= {"key": 0, "drawn": 0}
    timers.gather.function(message, gathered, wallaroo.Timers(key, now=0))
    due = dict(gathered.due)
    assert due == {"most": timers.MOST, "idle": timers.IDLE}
    with pytest.raises(ValueError, match=str(timers.IDLE)):
        timers.give("idle", gathered, wallaroo.Timers(key, timers.IDLE + 1, due))
    with pytest.raises(ValueError, match="None"):
        timers.give("idle", gathered, wallaroo.Timers(key, timers.IDLE))
    with pytest.raises(ValueError, match=str(timers.IDLE)):
        timers.gather.function(message, gathered, wallaroo.Timers(key, timers.IDLE, due))
    (entry,) = timers.give("idle", gathered, wallaroo.Timers(key, timers.IDLE, due))
    assert entry.split()[7:10] == ["k.timer", "1", "0"]


def test_sessions_that_do_not_agree_fail() -> None:
    sessions = _module("sessions")
    first, third = (1, "k", "k 1 1"), (3, "k", "k 3 3")
    recent = sessions.Recent()
    assert sessions.number_in_session.function(first, recent) == first
    with pytest.raises(ValueError, match="k 3 3"):
        sessions.number_in_session.function(third, recent)
    with pytest.raises(ValueError, match="k 3 3"):
        sessions.Gathered().output("k", [first, third])
    timed = sessions.Timed()
    timed.due = sessions.GAP
    with pytest.raises(ValueError, match=str(sessions.GAP)):
        sessions.end("timer", timed, wallaroo.Timers(now=sessions.GAP + 1))


def test_joins_with_something_else_fail() -> None:
    joins = _module("joins")
    third = joins.Message("k 3 3", 3, 0, {"table": [None, 3], "as of": [3], "interval": [1, 3]})
    second = joins.Message("k 2 2", 2, 0, {})
    assert joins.last_one.function(third, None) is third
    for join in (joins.last_one, joins.latest, joins.near):
        with pytest.raises(ValueError, match=r"\(3, '.*', 2"):
            join.function(third, second)
    with pytest.raises(ValueError, match="as of"):
        joins.latest.function(third, None)
    gathered = joins.Gathered()
    gathered.next = 3
    assert joins.gather.function((third, 1), gathered) is None
    with pytest.raises(ValueError, match="k 3 3"):
        joins.gather.function((third, 1), gathered)
    assert joins.gather.function((third, 3), gathered) is None
    assert joins.gather.function((third, "as of"), gathered) == ["k 3 3"]
    with pytest.raises(ValueError, match="k 3 3"):
        joins.gather.function((third, 3), gathered)


def _module(name: str) -> Any:
    load(str(APPLICATIONS[name]), ADDRESSES)
    return sys.modules[name]
