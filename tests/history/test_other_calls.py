"""Calls that return something else each time are found in the modules of an application."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from wallaroo.history.other_calls import other_calls
from wallaroo.testing import load

APPLICATION = """
import datetime as dt
import os
import random
import secrets
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from random import choice
from time import time as clock

import wallaroo
import of_another_calls
from of_helpers import helped

SEED, ARGUMENTS = random.Random(1), [1]
STARTED = time.time()
DRAWN = wallaroo.rng()  # wallaroo.rng, called once
UNSEEDED = random.Random()  # random.Random, called once
SYSTEM = random.SystemRandom()  # random.SystemRandom, called once


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    time.time(), datetime.now(), time.time()  # time.time, datetime.now
    dt.datetime.utcnow(), clock(), dt.date.today()  # dt.datetime.utcnow, clock, dt.date.today
    time.monotonic(), time.perf_counter_ns()  # time.monotonic, time.perf_counter_ns
    os.getpid(), secrets.choice("ab")  # os.getpid, secrets.choice
    return SYSTEM.random()  # SYSTEM.random


class Total:
    created = time.time()

    def __init__(self):
        self.id = uuid.uuid4()  # uuid.uuid4


@dataclass
class Event:
    at: float = field(default_factory=time.time)  # time.time
    gone: float = field(default_factory=lambda: time.time_ns())  # time.time_ns


def some(message):
    time.strftime("%H"), time.localtime()  # time.strftime, time.localtime
    time.ctime(None), time.gmtime()  # time.ctime, time.gmtime
    random.Random().random(), random.Random(None)  # random.Random
    (random
     .random())  # random.random
    [choice("ab") for _ in "a"]  # choice
    return helped()


def local(message):
    import numpy as np
    import of_imported_within
    from random import random as drawn
    from datetime import datetime
    np.random.default_rng().random(), np.random.rand()  # np.random.default_rng, np.random.rand
    np.random.default_rng(1).random(), np.random.RandomState(seed=1).rand()
    return (lambda: drawn())(), datetime.now()  # drawn, datetime.now


@wallaroo.computation(name="fine")
def fine(message, time_of=time.time):  # time.time
    time.sleep(0), time.gmtime(0), time.ctime(0), time.strftime("%H", time.gmtime(0))
    random.Random(message), random.Random(x=1), random.Random(*ARGUMENTS)
    isinstance(message, random.Random), map(time.gmtime, ARGUMENTS)
    "time.time()"  # and a comment: time.time()
    dict(random=random.Random(1)), secrets.compare_digest("a", "a"), uuid.uuid5
    return SEED.random(), datetime(2026, 1, 1), wallaroo.now(), wallaroo.rng().random()


def shadowed(random, uuid):
    time = wallaroo.rng()
    for secrets in ():
        secrets.token_hex()
    return time.time(), random.random(), [uuid.uuid4() for _ in "a"]


def application_setup(args):
    time.time()
    fresh = random.Random()  # random.Random, called once
    steps = [lambda message: time.time(), time.time_ns]  # time.time, time.time_ns
    source = wallaroo.source("a", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    return wallaroo.build_application("A", source.to(fine).to_sink(sink))


if __name__ == "__main__":
    GENERATOR = random.Random()
    print((lambda: time.time())())
"""
MODULES = {
    "other_calls_app": APPLICATION,
    "of_another_calls": """
import secrets
def token():
    return secrets.token_hex()  # secrets.token_hex
""",
    "of_helpers": """
from of_helpers_of_helpers import further
def helped():
    return further()
""",
    "of_helpers_of_helpers": """
import time
def further():
    return time.time()  # time.time
""",
    "of_imported_within": """
import uuid
def make():
    return uuid.uuid1()  # uuid.uuid1
""",
}
"""Behind each line with such calls, their names."""


def test_they_are_found_once_each_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    application = load(tmp_path / "other_calls_app.py")
    for name in ("of_imported_within", "numpy"):  # as a run of the function does
        importlib.import_module(name)
    found = [(call, str(place)) for call, place in other_calls(application)]
    assert sorted(found) == sorted(
        (call, f"{name}.py:{number}")
        for name, text in MODULES.items()
        for number, line in enumerate(text.splitlines(), 1)
        for call in calls_of(line)
    )


def calls_of(line: str) -> list[str]:
    """The calls that a comment names."""
    _, separator, named = line.partition("  # ")
    if not separator or named.startswith("and"):
        return []
    return [named] if named.endswith("once") else named.split(", ")
