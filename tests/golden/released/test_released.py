"""A run continues with what a killed run of each released version has left."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.golden.released import APP, HERE, NUMBERS, TEXTS
from tests.helpers import unpack
from tests.spark.harness import Receiver, called, run, send
from wallaroo import __version__
from wallaroo.testing import load, simulate

VERSIONS = sorted(archive.name.removesuffix(".tar.gz") for archive in HERE.glob("*.tar.gz"))


def by_key(outputs: list[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[output.split()[0]].append(output)
    return found


def test_there_is_a_state_directory_of_this_version() -> None:
    assert __version__ in VERSIONS, "run python -m tests.golden.released.make"


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_that_it_has_accepted_is_lost_or_counted_twice(
    version: str, tmp_path: Path
) -> None:
    state = unpack(HERE / f"{version}.tar.gz", tmp_path / "state")
    more = [b"a1000", b"b1000", b"c1000"]
    sent = [
        *(("Texts", text) for text in (*TEXTS, *more)),
        *(("Numbers", number) for number in NUMBERS),
    ]
    due = simulate(load(APP), sent)
    with Receiver("lines") as receiver, run(APP, receiver, state, 2) as running:
        send(running.sources["Texts"], more)
        outputs = receiver.wait_for(len(due.outputs))
        assert running.stop() == 0
    assert by_key(outputs) == by_key(due.outputs)
    letters = called("dead-letters", "list", APP, "--state-dir", state).stdout
    assert letters.count("invalid literal for int()") == len(due.set_aside) == 2
