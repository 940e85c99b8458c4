"""0.6: pipelines that merge; state of the computation's own; collect after it."""

# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    (north_host, north_port), (south_host, south_port) = wallaroo.tcp_parse_input_addrs(args)[:2]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    north = wallaroo.source(
        "North", wallaroo.TCPSourceConfig(north_host, north_port, decoder, parallelism=4)
    )
    south = wallaroo.source("South", wallaroo.TCPSourceConfig(south_host, south_port, decoder))
    trips = north.to(upwards).merge(south.clone().to(upwards))
    pipeline = (
        trips.key_by(lift)
        .to(climb)
        .collect()
        .to(highest)
        .to(lines)
        .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    )
    return wallaroo.build_application("Lifts", pipeline)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    name, start, end = bs.decode("utf-8").split()
    return (name, int(start), int(end))


@wallaroo.computation(name="upwards")
def upwards(trip):
    return trip if trip[2] > trip[1] else None


@wallaroo.key_extractor
def lift(trip):
    return trip[0]


class Climbed(object):
    floors = 0


@wallaroo.state_computation(name="climb", state=Climbed)
def climb(trip, state):
    state.floors += trip[2] - trip[1]
    return (trip[0], state.floors)


class Highest(object):
    def __init__(self):
        self.floors = 0


@wallaroo.state_computation_multi(name="highest", state=Highest)
def highest(climbed, state):
    name, floors = climbed
    if floors <= state.floors:
        return None
    state.floors = floors
    return [name, floors]


@wallaroo.computation_multi(name="lines")
def lines(value):
    return [str(value), None]


@wallaroo.encoder
def encoder(line):
    return line + "\n"
