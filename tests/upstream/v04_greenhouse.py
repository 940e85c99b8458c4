"""0.4: decorators and state classes; integer keys of plants, and a watering can for all."""

# ruff: noqa
# mypy: ignore-errors
import struct

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    plants = list(range(4))

    ab = wallaroo.ApplicationBuilder("Greenhouse")
    ab.new_pipeline("Moisture", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to_parallel(percent)
    ab.to_state_partition_u64(
        dry_twice,
        state_class=Plant,
        state_name="plants",
        partition_function=plant,
        partition_keys=plants,
    )
    ab.to_stateful(pour, Can, "can")
    ab.to(tell)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return struct.unpack(">Bf", bs)


@wallaroo.computation(name="percent")
def percent(reading):
    return (reading[0], int(reading[1] * 100))


@wallaroo.partition
def plant(reading):
    return reading[0]


class Plant(object):
    def __init__(self):
        self.dry = 0


@wallaroo.state_computation_multi(name="dry twice")
def dry_twice(reading, state):
    number, moisture = reading
    state.dry = state.dry + 1 if moisture < 30 else 0
    if state.dry < 2:
        return (None, True)
    return ([(number, 30 - moisture)], True)


class Can(object):
    litres = 100


@wallaroo.state_computation(name="pour")
def pour(watering, state):
    number, amount = watering
    state.litres -= amount
    return ((number, amount, state.litres), True)


@wallaroo.computation_multi(name="tell")
def tell(poured):
    return ["plant %d: %d" % poured[:2], "left: %d" % poured[2]]


@wallaroo.encoder
def encoder(line):
    return line + "\n"
