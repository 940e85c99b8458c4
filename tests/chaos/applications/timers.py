"""Timers: messages are counted as in `counting.py`, and only timers put them out.

The first message of an output sets a timer, and each message moves another one: what is due first
gives the output, and cancels the other one. A timer that is called at another time than that for
which it was set, or after a message that came later, makes dead letters: its messages are missed.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,misc"

import counting

import wallaroo

MOST, IDLE = wallaroo.milliseconds(700), wallaroo.milliseconds(250)
"""For how long an output is awaited since its first message, and since its last one."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source(
        "Timers", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    )
    return wallaroo.build_application(
        "Timers",
        messages.key_by(counting.key)
        .to(gather)
        .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)),
    )


class Gathered(counting.Seen):
    def __init__(self):
        super().__init__()
        self.entries = []
        self.due = {}
        self.calls = 0
        self.drawn_by_timer = 0


def give(name, gathered, timers):
    other = "idle" if name == "most" else "most"
    if gathered.due[name] != timers.now or timers.due(other) != gathered.due[other]:
        raise ValueError((name, timers.now, timers.due(other), gathered.due))
    timers.cancel(other)
    gathered.calls += 1
    before, gathered.drawn_by_timer = gathered.drawn_by_timer, counting.draw()
    entity = f"{timers.key[0]}.timer {gathered.calls} {before} {gathered.drawn_by_timer}"
    gathered.entries[-1] += f" {entity}"
    given, gathered.entries, gathered.due = gathered.entries, [], {}
    return given


@wallaroo.state_computation(name="gather", state=Gathered, on_timer=give)
def gather(message, gathered, timers):
    if any(due <= timers.now for due in gathered.due.values()):
        raise ValueError((timers.now, gathered.due))
    last, _ = counting.count(message, gathered)
    gathered.entries.append(counting.encode(last))
    if timers.due("most") is None:
        timers.set_after(MOST, "most")
    timers.set_after(IDLE, "idle")
    gathered.due = {name: timers.due(name) for name in ("most", "idle")}


@wallaroo.encoder
def encode(given):
    return ",".join(given)
