"""What the third generation has: keys that travel, merges and forks, windows, one key for all."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import wallaroo
from wallaroo import count_windows, minutes, range_windows


def application_setup(args):
    (one, other) = wallaroo.tcp_parse_input_addrs(args)[:2]
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    left = wallaroo.source("Left", wallaroo.TCPSourceConfig(*one, decode))
    right = wallaroo.source("Right", wallaroo.TCPSourceConfig(*other, decode))
    readings = left.to(calibrated).merge(right).key_by(sensor).to(only_value).to(smooth)
    averages = readings.to(
        range_windows(minutes(10))
        .with_slide(minutes(5))
        .with_delay(minutes(3))
        .with_late_data_policy("place-in-oldest-window")
        .with_event_time(time_of)
        .over(Average)
    )
    groups = readings.clone().key_by(decade).to(count_windows(5).over(Average))
    totals = averages.merge(groups).collect().to(number)
    return wallaroo.build_application("readings", totals.to_sink(sink))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    name, time, value = bs.decode().split()
    return (name, int(time), int(value))


@wallaroo.computation(name="calibrated")
def calibrated(reading):
    return (*reading[:2], reading[2] + 1)


def sensor(reading):
    return reading[0]


@wallaroo.computation(name="only value")
def only_value(reading):
    return reading[1:]


class Smooth:
    def __init__(self):
        self.last = 0


@wallaroo.state_computation(name="smooth", state=Smooth)
def smooth(reading, state):
    state.last = (state.last + reading[1]) // 2
    return (reading[0], state.last)


def time_of(reading):
    return minutes(reading[0])


@wallaroo.key_extractor
def decade(reading):
    return reading[1] // 10


class Average(wallaroo.Aggregation[tuple[int, int], list[int], tuple[object, int, int]]):
    def initial_accumulator(self):
        return [0, 0]

    def update(self, reading, accumulator):
        accumulator[0] += reading[1]
        accumulator[1] += 1

    def combine(self, one, other):
        return [one[0] + other[0], one[1] + other[1]]

    def output(self, key, accumulator):
        return (key, accumulator[0] // accumulator[1], accumulator[1])


class Numbers:
    def __init__(self):
        self.given = 0


@wallaroo.state_computation(name="number", state=Numbers)
def number(average, state):
    state.given += 1
    return (state.given, *average)


@wallaroo.encoder
def encode(average):
    return " ".join(map(str, average)) + "\n"
