"""A state directory that was damaged is not believed: the run ends with one sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.log_files import flip, places
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.errors import RESTORE, UsageError
from wallaroo.gateway.entries import OUTPUTS
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.start_check import LocalFiles, agree

pytestmark = pytest.mark.spark

APP, NAME, SOURCE = APPS / "word_count", "Word Count Application", "Split and Count"
WORDS = b"a b c d e f g"
SOON = "epoch_first_s=0.3,epoch_least_s=0.2,epoch_most_s=1,quiet_s=0.1"
_NOT_OWN = (
    r"the state in (the checkpoint|\S+) (is damaged: the log|cannot be loaded, .*STATE_STORE).*"
)
"""Told of a log that is not the newest: by us, or by Spark where its own files name each other."""
_CHANGELOG = re.compile(r"(\d+)(_.*)?\.changelog")
BLOCK_HEADER = 21
"""Bytes before the compressed content of a block of a changelog; 9 to 12 are its size."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of a run that was stopped after some epochs."""
    state = tmp_path_factory.mktemp("damage") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WALLAROO_PACE", SOON)
        with Receiver("lines") as receiver, run(APP, receiver, state) as running:
            for number in range(1, 5):
                send(running.sources[SOURCE], [WORDS])
                receiver.wait_for(7 * number)
                running.wait_until_processed()
            assert running.stop() == 0
        yield state


def changelogs(state: Path, partition: int) -> list[Path]:
    """The changelogs of a partition, the newest last."""
    found = {
        int(matched[1]): file
        for file in (state / "checkpoint/state/0" / str(partition)).iterdir()
        if (matched := _CHANGELOG.fullmatch(file.name)) is not None
    }
    return [file for _, file in sorted(found.items())]


def flip_a_bit(state: Path) -> None:
    """In the last byte of a block, a literal: some other flips leave the content as it was."""
    file = changelogs(state, 0)[-1]
    size = int.from_bytes(file.read_bytes()[9:13], "little")
    flip(file, BLOCK_HEADER + size - 1)


def flip_a_bit_of_a_table(state: Path) -> None:
    """In the first block, which holds entries: not all others are read."""
    flip(max((state / "checkpoint/state/0/0/SSTs").iterdir()), 10)


def replace_the_newest_by_older_ones(state: Path) -> None:
    for partition in (0, 1):
        older, newest = changelogs(state, partition)[-2:]
        shutil.copy(older, newest)


def replace_one_by_that_of_another_partition(state: Path) -> None:
    shutil.copy(changelogs(state, 1)[-1], changelogs(state, 0)[-1])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (flip_a_bit, r"state/0/0/\S+\.changelog is damaged: the block at byte 0 .*"),
        (flip_a_bit_of_a_table, r"state/0/0/SSTs/\S+\.sst is damaged: block checksum mismatch.*"),
        (replace_the_newest_by_older_ones, _NOT_OWN),
        (replace_one_by_that_of_another_partition, _NOT_OWN),
    ],
)
def test_a_run_on_damaged_files_of_the_state_ends_with_one_sentence(
    tmp_path: Path, stopped: Path, damage: Callable[[Path], None], told: str
) -> None:
    state = tmp_path / "state"
    shutil.copytree(stopped, state)
    damage(state)
    with Receiver("lines") as receiver:
        damaged = run(APP, receiver, state)
        ready = damaged.wait_for_event("ready", PATIENCE_S)
        for word in WORDS.split():  # some are of partitions that are not damaged
            send(ready["sources"][SOURCE], [word])
        assert damaged.wait(PATIENCE_S) == 1
        damaged.__exit__()
    last = damaged.events[-1]["event"]
    assert re.search(told + re.escape(RESTORE), last), last
    assert all(message.endswith(b"=> 5\n") for message in receiver.messages)


def test_a_run_starts_without_damaged_records_of_the_log_if_asked(
    tmp_path: Path, stopped: Path
) -> None:
    state = tmp_path / "state"
    shutil.copytree(stopped, state)
    place = places(state, OUTPUTS)[0]
    flip(place.file, place.end - 1)
    with Receiver("lines") as receiver:
        refused = run(APP, receiver, state)
        assert refused.wait(PATIENCE_S) == 1
        refused.__exit__()
        assert "is not as written" in refused.events[-1]["event"]
        assert "or start once with --skip-damaged" in refused.events[-1]["event"]
        with run(APP, receiver, state, options=["--skip-damaged"]) as running:
            send(running.sources[SOURCE], [WORDS])
            assert all(line.endswith(b"=> 5\n") for line in receiver.wait_for(7))
            assert running.stop() == 0


def test_another_number_of_partitions_in_the_last_epoch_is_refused(
    tmp_path: Path, stopped: Path
) -> None:
    path = tmp_path / "state"
    shutil.copytree(stopped, path)
    file = max((path / "checkpoint/offsets").glob("[0-9]*"), key=lambda one: int(one.name))
    version, metadata, *rest = file.read_text().splitlines()
    values = json.loads(metadata)
    values["conf"]["spark.sql.shuffle.partitions"] = "1"
    file.write_text("\n".join([version, json.dumps(values), *rest]))
    state = StateDirectory(path, NAME, 2)
    try:
        with pytest.raises(UsageError, match="has 1 partition, and the state has 2: if a change"):
            agree(state, LocalFiles(path))
    finally:
        state.close()
