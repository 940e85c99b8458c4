"""What is large passes through Java in parts."""

from __future__ import annotations

from pathlib import Path

from tests.applications.large import filling, told
from tests.engine.realtime.harness import (
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.helpers import LARGE, wait_until
from wallaroo.dataflow.log_rows import ROW_BYTES
from wallaroo.engine.realtime.frames import MOST_BYTES
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.testing import load

HEAD_BYTES = 64
"""Room for what comes before the content of a frame."""


def test_without_files_in_memory_a_message_crosses_spark_in_frames(tmp_path: Path) -> None:
    application = load(LARGE)
    sizes = [1, MOST_BYTES, 1_000_000, 5, 3 * MOST_BYTES]
    with (
        gateway_side(tmp_path, application, Pace(chunks=1)) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 2, files=False) as query,
    ):
        sent = [("Texts", b"k 0 " + b"x" * size) for size in sizes]
        submit(gateway, application, [*sent, ("Texts", b"k 1")])
        wait_until_processed(gateway, 6)
        (made,) = gateway.outputs(application).values()
        assert MOST_BYTES <= query.largest_frame < MOST_BYTES + HEAD_BYTES
    due = [told("k", b"")] * 5 + [told("k", filling("k", 0, 1))]
    assert made == [line.encode() for line in due]


def test_a_large_entity_is_kept_in_rows(tmp_path: Path) -> None:
    application, store = load(LARGE), Store()
    with gateway_side(tmp_path, application, Pace(chunks=1)) as gateway:
        with RunningQuery(gateway, application, store, tmp_path / "c", 1, 2) as query:
            for number, text in enumerate((b"k 2", b"k 1"), 1):
                submit(gateway, application, [("Texts", text)])
                wait_until_processed(gateway, number)
            query.feed.finish_epoch()
            assert query.largest_row == ROW_BYTES + 8
        with RunningQuery(gateway, application, store, tmp_path / "c", 2, 2):
            submit(gateway, application, [("Texts", b"k 0")])
            wait_until_processed(gateway, 3)
        (made,) = gateway.outputs(application).values()
    two = filling("k", 0, 2)
    three = two + filling("k", len(two), 1)
    assert made == [told("k", content).encode() for content in (two, three, three)]


def test_an_epoch_ends_when_its_changes_take_too_much_room(tmp_path: Path) -> None:
    application, store = load(LARGE), Store()
    pace = Pace(quiet_s=0.01, epoch_least_s=1e9, epoch_most_s=1e9, published_bytes=3 << 20)
    with (
        gateway_side(tmp_path, application, pace) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 1),
    ):
        wait_until(lambda: store.commits == 1, "the first epoch to end")
        submit(gateway, application, [("Texts", b"k 2")])
        wait_until_processed(gateway, 1)
        assert store.commits == 1
        submit(gateway, application, [("Texts", b"l 2")])
        wait_until(lambda: store.commits == 2, "the second epoch to end")
