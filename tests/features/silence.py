"""Windows over the time of arrival, which close because the time comes."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import wallaroo
from tests.features.pipelines import Average, encode, number


def application_setup(args):
    source = wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    windows = wallaroo.range_windows(wallaroo.milliseconds(400)).over(Average)
    averages = wallaroo.source("Readings", source).key_by(name).to(windows).collect().to(number)
    return wallaroo.build_application("silence", averages.to_sink(sink))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    sensor, value = bs.decode().split()
    return (sensor, int(value))


def name(reading):
    return reading[0]
