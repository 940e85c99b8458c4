"""Joins of all kinds: each message is joined with some messages of its key.

The as-of join and the interval join follow the table join, side by side: behind each other, the
time for which an application stands still would count as silence of the first one.

Messages are counted as in `counting.py`. The count also notes what a message has to be joined with;
what is joined with something else becomes a dead letter, and is missed. The last state waits until
it has all pairs of a message, and puts messages out in the order of their numbers.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,misc"

import counting

import wallaroo

EVERY = 3
"""Of so many messages of a key, one is also a right message of the joins."""
TTL = wallaroo.milliseconds(200)
"""For how long the table has a right message of a silent key."""
TOLERANCE, WAIT = wallaroo.milliseconds(150), wallaroo.milliseconds(100)
"""Of the as-of join."""
BEFORE, DELAY = wallaroo.milliseconds(400), wallaroo.milliseconds(500)
"""Of the interval join."""
MOST_PAIRS = 8
"""At a higher rate, there are no more right messages in an interval."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source("Joins", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode))
    counted = messages.key_by(counting.key).to(count).key_by(name_of)
    rights = counted.to(only_right)
    named = counted.join(rights, last_one)
    joined = named.join(rights, latest).merge(named.join(rights, near))
    return wallaroo.build_application(
        "Joins",
        joined.to(gather).to_sink(
            wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)
        ),
    )


class Timed(counting.Seen):
    def __init__(self):
        super().__init__()
        self.now = self.time = 0
        self.last_right = None
        self.rights = []

    def at(self, now):
        """The time of the next message, which no other one of the key has."""
        self.time = max(now, self.time + 1)
        return self.time


class Message:
    def __init__(self, entry, number, time, due):
        self.entry, self.number, self.time, self.due = entry, number, time, due
        self.is_right = False

    def check(self, join, right):
        if (found := right and right.number) not in self.due[join]:
            raise ValueError((self.number, join, found, self.due))
        return self


def not_set(*_arguments):
    raise AssertionError


@wallaroo.state_computation(name="count", state=Timed, on_timer=not_set)
def count(message, timed, timers):
    last, _ = counting.count(message, timed)
    number, time = last[1], timed.at(timers.now)
    former = None if timers.now >= timed.now + TTL else timed.last_right
    timed.now, timed.last_right = max(timed.now, timers.now), former
    counted = Message(counting.encode(last), number, time, {})
    counted.is_right = number % EVERY == 0 and (
        len(timed.rights) < MOST_PAIRS or timed.rights[-MOST_PAIRS][1] < time - BEFORE
    )
    counted.due["table"] = [former, number] if counted.is_right else [former]
    if counted.is_right:
        timed.last_right = number
        timed.rights = [*timed.rights[1 - MOST_PAIRS :], (number, time)]
    of_time = timed.rights[-1] if timed.rights else (None, 0)
    counted.due["as of"] = [of_time[0] if of_time[1] >= time - TOLERANCE else None]
    counted.due["interval"] = [right for right, at in timed.rights if at >= time - BEFORE] or [None]
    return counted


@wallaroo.partition
def name_of(counted):
    return counted.entry.split(maxsplit=1)[0]


@wallaroo.computation(name="only right ones")
def only_right(counted):
    return counted if counted.is_right else None


def time_of(counted):
    return counted.time


@wallaroo.table_join(name="the last one", how="left", ttl=TTL)
def last_one(counted, right):
    return counted.check("table", right)


@wallaroo.asof_join(
    name="the latest one",
    how="left",
    tolerance=TOLERANCE,
    delay=WAIT,
    left_time=time_of,
    right_time=time_of,
)
def latest(counted, right):
    return counted.check("as of", right), "as of"


@wallaroo.interval_join(
    name="near ones",
    how="left",
    before=BEFORE,
    after=wallaroo.milliseconds(0),
    delay=DELAY,
    left_time=time_of,
    right_time=time_of,
)
def near(counted, right):
    return counted.check("interval", right), right and right.number


class Gathered:
    def __init__(self):
        self.next = 1
        self.found = {}


@wallaroo.state_computation(name="gather", state=Gathered)
def gather(pair, gathered):
    counted, right = pair
    pairs = ["as of", *counted.due["interval"]]
    found = gathered.found.setdefault(counted.number, (counted.entry, pairs, []))
    if counted.number < gathered.next or right in found[2]:
        raise ValueError((counted.number, right, gathered.next, found))
    found[2].append(right)
    given = []
    while (first := gathered.found.get(gathered.next)) and len(first[1]) == len(first[2]):
        given.append(first[0])
        del gathered.found[gathered.next]
        gathered.next += 1
    return given or None


@wallaroo.encoder
def encode(given):
    return ",".join(given)
