"""Code without types is checked by nobody, and stands in nobody's way."""

import wallaroo


def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    words = wallaroo.source("Words", wallaroo.TCPSourceConfig(host, port, decode))
    reveal_type(words)  # R: Pipeline[Any]
    counts = words.to(lower).to(split).key_by(word).to(count)
    reveal_type(counts)  # R: Pipeline[Any]
    again = counts.merge(words.collect().to(pair)).to(wallaroo.count_windows(2).over(Last))
    reveal_type(words.to(typed))  # R: Pipeline[str]
    return wallaroo.build_application("words", again.to(Shout()).to_sinks([sink, sink]))


def of_builder(args):
    builder = wallaroo.ApplicationBuilder("words")
    builder.new_pipeline("Words", wallaroo.TCPSourceConfig("", 0, Lines()))
    builder.to(Shout).to_state_partition(pair, Count, "counts", word, ["a", "b"])
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    return builder.build()


class Count:
    def __init__(self):
        self.count = 0


class Lines:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return len(bs)

    def decode(self, bs):
        return bs.decode()


class Shout:
    def name(self):
        return "shout"

    def compute(self, data):
        return data.upper()


class Last(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, message, accumulator):
        accumulator[:] = [message]

    def combine(self, one, other):
        return other or one

    def output(self, key, accumulator):
        return accumulator[0]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.computation(name="lower")
def lower(text):
    return text.lower()


@wallaroo.computation(name="typed")
def typed(text: str) -> str:
    return text.lower()


@wallaroo.computation_multi("split")
def split(text):
    return text.split()


@wallaroo.key_extractor
def word(text):
    return text


@wallaroo.state_computation("count", state=Count)
def count(text, state):
    state.count += 1
    return (text, state.count)


@wallaroo.state_computation(name="pair")
def pair(text, state):
    return (text, True)


@wallaroo.encoder
def encode(count):
    return "%s\n" % (count,)
