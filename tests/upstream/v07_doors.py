"""The last Wallaroo: addresses by name, named sources, options of its own, late data."""

# ruff: noqa
# mypy: ignore-errors
import argparse

import wallaroo
import wallaroo.experimental


def application_setup(args):
    parser = argparse.ArgumentParser("Doors")
    parser.add_argument("--late", default="drop")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--connector", action="store_true")
    options, _ = parser.parse_known_args(args)
    if not "--cluster-initializer" in wallaroo._ARGS:
        raise wallaroo.WallarooParameterError("not on the initializer")

    inputs = {ip[0]: {"host": ip[1], "port": ip[2]} for ip in wallaroo.tcp_parse_input_addrs(args)}
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    entries = wallaroo.source(
        "Entries",
        wallaroo.TCPSourceConfig(
            "Entries",
            inputs["Entries"]["host"],
            inputs["Entries"]["port"],
            decoder,
            valid=True,
            max_size=100,
        ),
    )
    if options.connector:
        config = wallaroo.experimental.SourceConnectorConfig(
            "Exits",
            encoder=None,
            decoder=connector_decoder,
            cookie="biscuit",
            max_credits=10,
            refill_credits=8,
            **inputs["Exits"],
        )
    else:
        config = wallaroo.TCPSourceConfig("Exits", decoder=decoder, **inputs["Exits"])
    exits = wallaroo.source("Exits", config)

    windows = wallaroo.range_windows(wallaroo.seconds(options.seconds)).with_late_data_policy(
        late_data_policy=options.late
    )
    pipeline = (
        entries.merge(exits.to(leaving))
        .key_by(door)
        .to(windows.over(People))
        .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    )
    return wallaroo.build_application("Doors", pipeline)


def decode(bs):
    name, people = bs.decode("utf-8").split(":")
    return (name, int(people))


decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decode)
connector_decoder = wallaroo.experimental.stream_message_decoder(decode)


@wallaroo.computation(name="leaving")
def leaving(passed):
    return (passed[0], -passed[1])


@wallaroo.key_extractor
def door(passed):
    return passed[0]


class Sum(object):
    def __init__(self, people=0):
        self.people = people


class People(wallaroo.Aggregation):
    def initial_accumulator(self):
        return Sum()

    def update(self, passed, acc):
        acc.people += passed[1]

    def combine(self, acc1, acc2):
        return Sum(acc1.people + acc2.people)

    def output(self, key, acc):
        return "%s %+d" % (key, acc.people)


@wallaroo.encoder
def encoder(line):
    return (line + "\n").encode("utf-8")
