"""Two states in one path: messages are counted by their key, and then by the group of the key.

Both entities keep what they have drawn for their last message, as in `counting.py`.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"

import zlib
from collections import Counter

import counting

import wallaroo

GROUPS = 7
"""How many groups there are."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source(
        "Levels", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    )
    counted = messages.key_by(counting.key).to(count).key_by(group_of).to(count_in_group)
    return wallaroo.build_application(
        "Levels",
        counted.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)),
    )


class Group:
    def __init__(self):
        self.messages = 0
        self.of_key: Counter[str] = Counter()
        self.drawn = 0


@wallaroo.state_computation(name="count", state=counting.Seen)
def count(message, seen):
    last, _ = counting.count(message, seen)
    return last


@wallaroo.partition
def group_of(last):
    return zlib.crc32(last[0].encode()) % GROUPS


@wallaroo.state_computation(name="count in group", state=Group)
def count_in_group(last, group):
    name, number, messages, former, drawn = last
    group.messages += 1
    group.of_key[name] += 1
    before, group.drawn = group.drawn, counting.draw()
    of_group = f"group{group_of(last)}", group.messages, before, group.drawn
    return name, number, group.of_key[name], name, messages, former, drawn, *of_group


@wallaroo.encoder
def encode(counted):
    return " ".join(map(str, counted))
