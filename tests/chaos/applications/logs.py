"""Steps for messages of several logs: windows and a join by the time that a message has.

A line of a log is `KEY NUMBER SECONDS`; a right message of the join has a negative number. Outputs
begin with `@`. What else is written to the sink is counted as in `counting.py`, from a port that
faults use.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,misc"

import argparse
from pathlib import Path
from typing import Any

import counting

import wallaroo

WINDOW_S, DELAY_S = 300, 2400
"""Time of messages passes so much faster than that of clocks that no silence closes a window."""
NEAR_S = 300
"""How far apart joined messages are at most."""


def files(args):
    """The two files that are the logs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", default=".")
    folder = Path(parser.parse_known_args(args)[0].logs)
    return [folder / "0", folder / "1"]


def with_port(name, args, outputs):
    """The application: *outputs*, and the counts of what comes at the port."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    port = wallaroo.source("Port", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode))
    counted = port.key_by(counting.key).to(count)
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)
    return wallaroo.build_application(name, counted.merge(outputs).to_sink(sink))


@wallaroo.state_computation(name="count", state=counting.Seen)
def count(message, seen):
    last, _ = counting.count(message, seen)
    return counting.encode(last)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(line):
    key, number, seconds = line.split()
    return key.decode(), int(number), int(seconds)


def key_of(message):
    return message[0]


def time_of(message):
    return message[2] * 10**9


class Gathered(wallaroo.Aggregation[Any, Any, Any]):
    def initial_accumulator(self):
        return []

    def update(self, message, gathered):
        gathered.append(message[1:])

    def combine(self, one, other):
        return one + other

    def output(self, key, gathered, window):
        messages = " ".join(f"{number}:{seconds}" for number, seconds in sorted(gathered))
        return f"@{key} {int(window.start.timestamp())} {messages}"


windows = (
    wallaroo.range_windows(wallaroo.seconds(WINDOW_S))
    .with_event_time(time_of)
    .with_delay(wallaroo.seconds(DELAY_S))
    .over(Gathered)
)


@wallaroo.computation(name="only left ones")
def only_left(message):
    return message if message[1] >= 0 else None


@wallaroo.computation(name="only right ones")
def only_right(message):
    return message if message[1] <= 0 else None


@wallaroo.interval_join(
    name="near",
    how="left",
    before=wallaroo.seconds(NEAR_S),
    after=wallaroo.seconds(NEAR_S),
    delay=wallaroo.seconds(DELAY_S),
    left_time=time_of,
    right_time=time_of,
)
def near(left, right):
    of_right = None if right is None else right[1]
    return f"@{left[0]} {left[1]} {of_right}"


@wallaroo.encoder
def encode(output):
    return output
