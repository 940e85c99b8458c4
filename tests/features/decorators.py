"""What the second generation had: decorators, dynamic keys of any kind, several sinks."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import wallaroo


def application_setup(args):
    visits, names = wallaroo.tcp_parse_input_addrs(args)[:2]
    sinks = [
        wallaroo.TCPSinkConfig(*address, encode)
        for address, encode in zip(
            wallaroo.tcp_parse_output_addrs(args), (as_text, as_bytes), strict=False
        )
    ]
    builder = wallaroo.ApplicationBuilder("visits")
    builder.new_pipeline("Visits", wallaroo.TCPSourceConfig(*visits, decode))
    builder.to(clean)
    builder.to_state_partition(visit, Visitors, "visitors", page_and_day)
    builder.to_state_partition(greet, Names, "names", visitor)
    builder.to_sinks(sinks)
    builder.new_pipeline("Names", wallaroo.TCPSourceConfig(*names, decode))
    builder.to_state_partition(rename, Names, "names", visitor)
    builder.done()
    return builder.build()


@wallaroo.decoder(header_length=2, length_fmt="<H")
def decode(bs):
    return tuple(bs.decode().split()) if bs else None


@wallaroo.computation(name="clean")
def clean(words):
    return (words[0].lower(), *words[1:])


@wallaroo.partition
def page_and_day(words):
    return (words[1], int(words[2]))


class Visitors:
    def __init__(self):
        self.seen = []


@wallaroo.state_computation_multi(name="visit")
def visit(words, state):
    state.seen.append(words[0])
    return ((name, words[1], len(state.seen)) for name in state.seen[-2:]), True


@wallaroo.partition
def visitor(words):
    return words[0]


class Names:
    def __init__(self):
        self.name = None


@wallaroo.state_computation(name="greet")
def greet(words, state):
    return ((state.name or words[0], *words[1:]), False)


@wallaroo.state_computation(name="rename")
def rename(words, state):
    state.name = words[1]
    return (None, True)


@wallaroo.encoder
def as_text(words):
    return " ".join(map(str, words)) + "\n"


@wallaroo.encoder
def as_bytes(words):
    return repr(words).encode()
