"""0.1 to 0.4: integer keys, which are listed, and the module's own serialization."""

# ruff: noqa
# mypy: ignore-errors
import pickle

import wallaroo


def serialize(o):
    return b"depots" + pickle.dumps(o)


def deserialize(bs):
    assert bs.startswith(b"depots")
    return pickle.loads(bs[6:])


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Depots")
    ab.new_pipeline("Trams", wallaroo.TCPSourceConfig(in_host, in_port, TramDecoder()))
    ab.to_state_partition_u64(Arrive(), DepotBuilder(), "depots", LinePartition(), [0, 1, 2])
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, TextEncoder()))
    return ab.build()


class TramDecoder(object):
    def header_length(self):
        return 1

    def payload_length(self, bs):
        return bs[0]

    def decode(self, bs):
        return {"line": bs[0], "tram": bs[1:].decode()}


class LinePartition(object):
    def partition(self, data):
        return data["line"]


class DepotBuilder(object):
    def build(self):
        return {"trams": []}


class Arrive(object):
    def name(self):
        return "arrive"

    def compute(self, data, state):
        state["trams"].append(data["tram"])
        return ("%d: %s" % (data["line"], ",".join(state["trams"])), True)


class TextEncoder(object):
    def encode(self, data):
        return (data + ";").encode()
