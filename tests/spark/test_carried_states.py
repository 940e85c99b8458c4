"""States with timers, a time to live, sessions, joins and migrations, carried to other directories.

The entities of a run are exported, made two hours older, imported into another number of partitions
and repartitioned; then a newer version of the application goes on with them. All outputs are those
of one simulation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests.spark.harness import Receiver, called, run, send
from tests.spark.test_state import NAME
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

KEYS = [f"k{number}" for number in range(20)]
START = 1_700_000_000 * 10**9
HOURS = wallaroo.hours(2)
"""What passes between the two versions."""
ANY_TIME = 10**18
"""Greater numbers in an export are times: of arrival, of keys, of windows and of timers."""

STEPS = """
import json
from collections import Counter
import wallaroo

def encode(output):
    return " ".join(map(str, output)) + "\\n"

def of_kind(*kinds):
    @wallaroo.computation(name="only " + " ".join(kinds))
    def only(message):
        return message if message["kind"] in kinds else None
    return only

def called(name, counted, timers):
    if name == "soon":
        timers.set_after(wallaroo.minutes(50), "again")
    return name, timers.key, counted.number()

@wallaroo.state_computation(name="remind", state=Counted, on_timer=called)
def remind(message, counted, timers):
    counted.add()
    timers.set_after(wallaroo.minutes(30), "soon")
    timers.set_after(wallaroo.hours(30), "later")
    return "counted", message["key"], counted.number()

class Seen:
    def __init__(self):
        self.numbers = []
    def add(self, number):
        self.numbers.append(number)
        return sum(self.numbers)

@wallaroo.state_computation(name="short", state=Seen, ttl=wallaroo.minutes(40))
def short(message, seen):
    return "short", message["key"], seen.add(message["n"])

class Kept(Seen):
    pass

@wallaroo.state_computation(name="long", state=Kept, ttl=wallaroo.hours(30))
def long(message, kept):
    return "long", message["key"], kept.add(message["n"])

class Numbers(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []
    def update(self, message, numbers):
        numbers.append(message["n"])
    def combine(self, one, other):
        return one + other
    def output(self, key, numbers):
        return "session", key, *numbers

@wallaroo.interval_join(
    name="near", before=wallaroo.hours(1), after=wallaroo.hours(1), how="left"
)
def near(left, right):
    return "near", left["key"], left["n"], right and right["n"]

@wallaroo.table_join(name="last", ttl=wallaroo.hours(30))
def last(left, right):
    return "last", left["key"], left["n"], right["n"]

def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(json.loads)
    events = wallaroo.source("Events", wallaroo.TCPSourceConfig(host, port, decoder))
    events = events.key_by(lambda message: message["key"])
    sessions = wallaroo.session_windows(wallaroo.minutes(20)).over(Numbers())
    left, right = events.to(of_kind("left", "both")), events.to(of_kind("right", "both"))
    counted = events.to(remind)
    made = counted.merge(events.to(short)).merge(events.to(long)).merge(events.to(sessions))
    made = made.merge(left.join(right, near)).merge(left.join(right, last))
    sink = wallaroo.TCPSinkConfig(out_host, out_port, wallaroo.encoder(encode))
    return wallaroo.build_application("Carried", made.to_sink(sink))
"""
BEFORE = """
class Counted:
    def __init__(self):
        self.times = 0
    def add(self):
        self.times += 1
    def number(self):
        return self.times
"""
AFTER = """
import wallaroo

class Counted:
    def __init__(self):
        self.by_hand = {"all": []}
    def add(self):
        self.by_hand["all"].append(1)
    def number(self):
        return len(self.by_hand["all"])

@wallaroo.migrate(Counted, from_version=1)
def with_lists(fields):
    return {"by_hand": {"all": [1] * fields["times"]}}
"""


def messages(first: int, count: int) -> list[bytes]:
    """As many messages of each key, which differ in kind; every fifth key has no right ones."""
    kinds = ("left", "right", "both", "other")
    made = [
        {"key": key, "kind": kinds[(number + place) % 4 if place % 5 else 0], "n": number}
        for number in range(first, first + count)
        for place, key in enumerate(KEYS)
    ]
    return [json.dumps(one).encode() for one in made]


def by_kind(outputs: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """By kind and key."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for output in outputs:
        found[b" ".join(output.split()[:2])].append(output.strip())
    return found


def older(value: Any) -> Any:
    """An exported *value* as if all messages had arrived two hours earlier."""
    if isinstance(value, list):
        return [older(one) for one in value]
    if isinstance(value, dict):
        return {name: older(one) for name, one in value.items()}
    return value - HOURS if isinstance(value, int) and value > ANY_TIME else value


def test_states_go_on_in_other_partitions_with_all_that_is_due(tmp_path: Path) -> None:
    app, first, second = tmp_path / "carried.py", tmp_path / NAME, tmp_path / f"{NAME} too"
    before, after = messages(0, 4), messages(4, 2)
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")
    app.write_text(AFTER + STEPS)
    made = load(str(app), [*addresses])
    due = simulate(
        made,
        [("Events", one, START) for one in before]
        + [("Events", one, START + HOURS) for one in after],
        until_ns=START + HOURS + wallaroo.seconds(1),
    )
    early = simulate(made, [("Events", one, START) for one in before])
    idle = simulate(made, [("Events", one, START) for one in before], until_ns=START + HOURS)

    app.write_text(BEFORE + STEPS)
    with Receiver("lines") as receiver:
        with run(app, receiver, first) as running:
            send(running.sources["Events"], before)
            receiver.wait_for(len(early.outputs))
            running.wait_until_processed()
            assert running.stop() == 0
        exported = command("state", "export", app, "--state-dir", first).splitlines()
        aged = [json.dumps(older(json.loads(line))) for line in exported]
        (tmp_path / "aged").write_text("\n".join(aged) + "\n")
        app.write_text(AFTER + STEPS)
        options = ("--state-dir", second, "--partitions", "3")
        command("state", "import", app, tmp_path / "aged", *options)
        command("repartition", app, *addresses, "--state-dir", second, "--partitions", "5")
        with run(app, receiver, second) as running:
            receiver.wait_for(len(idle.outputs))  # what the clock makes due
            send(running.sources["Events"], after)
            receiver.wait_for(len(due.outputs))
            assert running.stop() == 0
    assert by_kind(receiver.messages) == by_kind(due.outputs)


def command(*arguments: object) -> str:
    done = called(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
