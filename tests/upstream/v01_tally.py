"""0.1 to 0.3: classes; one state that is not partitioned; printing wherever one likes."""

# ruff: noqa
# mypy: ignore-errors
import struct

import wallaroo


def application_setup(args):
    print("setting up with", args)
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Turnstile Tally")
    ab.new_pipeline("Turnstiles", wallaroo.TCPSourceConfig(in_host, in_port, PassDecoder()))
    ab.to(OnlyAdults)
    ab.to_parallel(Doubled)
    ab.to_stateful(AddUp(), TallyBuilder(), "tally")
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, TallyEncoder()))
    return ab.build()


class PassDecoder(object):
    def header_length(self):
        return 2

    def payload_length(self, bs):
        return struct.unpack(">H", bs)[0]

    def decode(self, bs):
        age, people = struct.unpack(">BI", bs)
        return Pass(age, people)


class Pass(object):
    def __init__(self, age, people):
        self.age = age
        self.people = people


class OnlyAdults(object):
    def name(self):
        return "only adults"

    def compute(self, data):
        return data if data.age >= 18 else None


class Doubled(object):
    def name(self):
        return "doubled"

    def compute(self, data):
        return Pass(data.age, data.people * 2)


class Tally(object):
    def __init__(self):
        self.people = 0


class TallyBuilder(object):
    def name(self):
        return "tally builder"

    def build(self):
        return Tally()


class AddUp(object):
    def name(self):
        return "add up"

    def compute(self, data, state):
        state.people += data.people
        return (state.people, True)


class TallyEncoder(object):
    def encode(self, data):
        return struct.pack(">I", data)
