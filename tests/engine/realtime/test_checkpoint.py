"""Whether Spark has all that is published of a query, from the files of its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wallaroo.engine.realtime.checkpoint import (
    check_partitions,
    check_that_spark_has_all,
    has_begun,
    note_begun,
    note_ended,
    place_of,
    published_after,
)
from wallaroo.engine.spark.checkpoint.epochs import last_commit
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError
from wallaroo.wire.chunk_messages import CheckpointPosition


class Outbox:
    """An outbox that has a change of each chunk; what Spark has is forgotten."""

    def __init__(self) -> None:
        self.changes = {number: b"%d" % number for number in range(1, 10)}
        self.asked: list[int] = []

    def __call__(self, run: str, after: int) -> list[bytes]:
        assert run == "run"
        self.asked.append(after)
        return [change for number, change in self.changes.items() if number > after]


def planned(checkpoint: Path, epoch: int, place: CheckpointPosition, partitions: int = 2) -> None:
    """Write the position of an epoch as Spark does when it ends."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text("run")
    conf = json.dumps({"conf": {"spark.sql.shuffle.partitions": str(partitions)}})
    (checkpoint / "offsets" / str(epoch)).write_text(f"v1\n{conf}\n{place.to_json()}")


def committed(checkpoint: Path, epoch: int, place: CheckpointPosition, partitions: int = 2) -> None:
    """Write the position of an epoch, and that it is committed."""
    planned(checkpoint, epoch, place, partitions)
    (checkpoint / "commits").mkdir(exist_ok=True)
    (checkpoint / "commits" / str(epoch)).touch()


@pytest.fixture
def layout(tmp_path: Path) -> StateLayout:
    """A state of which Spark has five chunks."""
    committed(tmp_path, 0, CheckpointPosition(50, 5))
    return StateLayout("application", 2, 16, tmp_path, Outbox())


def test_after_an_epoch_spark_has_all(layout: StateLayout) -> None:
    note_begun(layout.checkpoint, CheckpointPosition(20, 3))
    assert not has_begun(layout.checkpoint, CheckpointPosition(50, 5))
    assert published_after(layout)[1] == []
    check_that_spark_has_all(layout)


def test_what_is_published_after_the_last_epoch_is_found(layout: StateLayout) -> None:
    note_begun(layout.checkpoint, CheckpointPosition(50, 5))
    commit, records = published_after(layout)
    assert commit is not None
    assert (commit.epoch, records) == (0, [b"6", b"7", b"8", b"9"])
    with pytest.raises(RuntimeFailure, match="was not stopped cleanly"):
        check_that_spark_has_all(layout)


def test_an_epoch_that_ends_where_it_began_leaves_nothing_begun(layout: StateLayout) -> None:
    elsewhere = StateLayout("application", 2, 16, layout.checkpoint, None)
    note_begun(layout.checkpoint, CheckpointPosition(50, 5))
    note_ended(layout.checkpoint)
    check_that_spark_has_all(elsewhere)
    note_ended(layout.checkpoint)  # without a mark


def test_before_the_first_epoch_all_is_in_the_outbox(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("run")
    layout = StateLayout("application", 2, 16, tmp_path, Outbox())
    assert published_after(layout) == (None, [])
    note_begun(tmp_path, CheckpointPosition())
    assert len(published_after(layout)[1]) == 9


@pytest.mark.parametrize("published", [None, lambda _run, _after: None])
def test_without_the_outbox_a_state_that_may_lack_something_is_refused(
    layout: StateLayout, published: None
) -> None:
    elsewhere = StateLayout("application", 2, 16, layout.checkpoint, published)
    assert published_after(elsewhere)[1] == []
    note_begun(layout.checkpoint, CheckpointPosition(50, 5))
    for read in (published_after, check_that_spark_has_all):
        with pytest.raises(RuntimeFailure, match="start it once more, stop it cleanly"):
            read(elsewhere)


def test_what_spark_commits_meanwhile_is_not_missed(layout: StateLayout) -> None:
    """The query runs: when Spark has committed, the gateway forgets the changes."""
    note_begun(layout.checkpoint, CheckpointPosition(50, 5))
    outbox = layout.published
    assert isinstance(outbox, Outbox)

    def published(run: str, after: int) -> list[bytes]:
        if after == 5:
            committed(layout.checkpoint, 1, CheckpointPosition(80, 8))
            note_begun(layout.checkpoint, CheckpointPosition(80, 8))
            for number in range(1, 9):
                del outbox.changes[number]
        return outbox(run, after)

    running = StateLayout("application", 2, 16, layout.checkpoint, published)
    commit, records = published_after(running)
    assert commit is not None
    assert (commit.epoch, records) == (1, [b"9"])
    assert outbox.asked == [5, 8]


def test_a_position_without_a_commit_counts_for_nothing(layout: StateLayout) -> None:
    planned(layout.checkpoint, 1, CheckpointPosition(90, 9))
    assert place_of(layout.checkpoint, last_commit(layout.checkpoint)) == CheckpointPosition(50, 5)


def test_a_damaged_position_is_told(layout: StateLayout) -> None:
    (layout.checkpoint / "offsets" / "0").write_text("v1\n{")
    with pytest.raises(UsageError, match=r"offsets/0 is corrupt .* from a backup"):
        published_after(layout)


def test_a_changed_mark_of_what_was_begun_is_told(layout: StateLayout) -> None:
    """With a smaller number, what was published would not be looked for."""
    note_begun(layout.checkpoint, CheckpointPosition(50, 5))
    file = layout.checkpoint / "begun"
    file.write_text(file.read_text().replace('"chunk": 5', '"chunk": 4'))
    with pytest.raises(DamagedFile, match="begun is damaged: its contents do not match"):
        published_after(layout)


def test_an_interrupted_change_of_the_partitions_is_told(layout: StateLayout) -> None:
    check_partitions(layout)
    planned(layout.checkpoint, 1, CheckpointPosition(50, 5), partitions=4)
    with pytest.raises(RuntimeFailure, match=r"from 2 to 4 partitions .* --partitions 4` again"):
        check_partitions(layout)
