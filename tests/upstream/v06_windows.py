"""0.6.1: range and count windows, over an aggregation and over a class that has its methods."""

# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    kind = args[-1]
    if kind == "tumbling":
        windows = wallaroo.range_windows(wallaroo.seconds(10)).over(Loudest)
    elif kind == "sliding":
        windows = (
            wallaroo.range_windows(wrange=wallaroo.seconds(10))
            .with_slide(wallaroo.seconds(5))
            .with_delay(wallaroo.seconds(2))
            .over(aggregation_cls=Loudest)
        )
    else:
        windows = wallaroo.count_windows(3).over(Together)

    pipeline = (
        wallaroo.source("Microphones", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
        .key_by(room)
        .to(windows)
        .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    )
    return wallaroo.build_application("Noise", pipeline)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    name, volume = bs.decode("utf-8").split()
    return (name, int(volume))


@wallaroo.key_extractor
def room(noise):
    return noise[0]


class Loud(object):
    def __init__(self, volume=0):
        self.volume = volume


class Loudest(wallaroo.Aggregation):
    def initial_accumulator(self):
        return Loud()

    def update(self, noise, loud):
        loud.volume = max(loud.volume, noise[1])

    def combine(self, loud1, loud2):
        return Loud(max(loud1.volume, loud2.volume))

    def output(self, key, loud):
        return (key, loud.volume)


class Together(object):
    def name(self):
        return "together"

    def initial_accumulator(self):
        return []

    def update(self, noise, volumes):
        volumes.append(noise[1])

    def combine(self, volumes1, volumes2):
        return volumes1 + volumes2

    def output(self, key, volumes):
        return (key, sum(volumes))


@wallaroo.encoder
def encoder(result):
    return "%s %d\n" % result
