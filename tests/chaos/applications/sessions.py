"""A timer, a time to live and sessions, which have to agree on when a key was silent.

Messages are counted as in `counting.py`; those for which the three disagree become dead letters,
and are missed.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,misc"

from typing import Any

import counting

import wallaroo

GAP = wallaroo.milliseconds(100)
"""The time for which a key is silent: as often as not, it gets its next message by then."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source(
        "Sessions", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    )
    counted = messages.key_by(counting.key).to(count).key_by(name_of).to(number_in_session)
    sessions = counted.to(wallaroo.session_windows(GAP).over(Gathered))
    return wallaroo.build_application(
        "Sessions",
        sessions.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)),
    )


class Timed(counting.Seen):
    def __init__(self):
        super().__init__()
        self.in_session = 0
        self.due = None


class Recent:
    def __init__(self):
        self.messages = 0


def end(_name, timed, timers):
    if timers.now != timed.due:
        raise ValueError((timers.now, timed.due))
    timed.in_session = 0


@wallaroo.state_computation(name="count", state=Timed, on_timer=end)
def count(message, timed, timers):
    last, _ = counting.count(message, timed)
    timed.in_session += 1
    timers.set_after(GAP)
    timed.due = timers.due()
    return timed.in_session, last[0], counting.encode(last)


@wallaroo.partition
def name_of(counted):
    return counted[1]


@wallaroo.state_computation(name="number in session", state=Recent, ttl=GAP)
def number_in_session(counted, recent):
    number, _, entry = counted
    recent.messages += 1
    if number != recent.messages:
        raise ValueError((number, recent.messages, entry))
    return counted


class Gathered(wallaroo.Aggregation[Any, Any, Any]):
    def initial_accumulator(self):
        return []

    def update(self, counted, gathered):
        gathered.append(counted)

    def combine(self, one, other):
        return one + other

    def output(self, _key, gathered):
        if [number for number, *_ in gathered] != list(range(1, len(gathered) + 1)):
            raise ValueError(gathered)
        return [entry for *_, entry in gathered]


@wallaroo.encoder
def encode(entries):
    return ",".join(entries)
