"""Which segments are kept after their release, by their size and their age."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.log.model import Model
from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.gateway.log.disk import Disk
from wallaroo.gateway.log.kept import Keep, KeptSegments

_SECOND_NS = 10**9


def kept(model: Model) -> list[int]:
    """Numbers of the first records of the segments that are kept."""
    names = sorted(name for name in model.disk.names_seen if name.startswith("kept-"))
    return [int(name.removeprefix("kept-"), 16) for name in names]


def fill(model: Model, segments: int) -> None:
    """Append some segments, with a second between their ends, and release all before the last."""
    for _ in range(segments):
        first = model.log.next
        while len(model.log._segments) < 2 or model.log._segments[-1].head.first < first:
            model.append(7, bytes(100))
        model.now_ns += _SECOND_NS
        model.write()
        model.sync()
    model.release(model.log.next - 1)


def a_log(keep_bytes: int = 10**6, keep_s: float = 10.0) -> Model:
    model = Model(SimulatedDisk(), 400, keep_bytes, keep_s)
    model.recover()
    fill(model, 6)
    model.log.kept.expire()
    return model


def test_each_segment_goes_some_time_after_its_last_record() -> None:
    model = a_log()
    all_kept, left_s = kept(model), model.log.kept.expire()
    assert len(all_kept) == 6
    assert left_s == 5.0  # the first one has ended five seconds ago
    model.now_ns += 5 * _SECOND_NS - 1
    model.log.kept.expire()
    assert kept(model) == all_kept
    model.now_ns += 1
    assert model.log.kept.expire() == 1.0
    assert kept(model) == all_kept[1:]
    model.now_ns += 100 * _SECOND_NS
    for number in range(2, 7):  # one at a time
        left_s = model.log.kept.expire()
        assert kept(model) == all_kept[number:]
    assert left_s is None
    assert not model.log.kept.forget_oldest()


def test_without_a_limit_none_goes_by_its_age() -> None:
    model = a_log(keep_s=0.0)
    model.now_ns += 10**9 * _SECOND_NS
    assert model.log.kept.expire() is None
    assert len(kept(model)) == 6


def test_the_limit_of_the_size_holds_for_segments_that_are_young() -> None:
    model = a_log(keep_bytes=1_500)
    assert 0 < model.disk.kept_bytes() <= 1_500
    model.scan()


@pytest.mark.parametrize("keep_s", [2.0, 1_000.0])
def test_the_age_counts_on_after_a_restart_with_another_limit(keep_s: float) -> None:
    model = a_log()
    all_kept = kept(model)
    model.log.close()
    model.keep_s = keep_s
    model.recover()
    assert kept(model) == all_kept  # the clock is not known yet
    while (model.log.kept.expire() or 1) <= 0:
        pass
    assert kept(model) == all_kept if keep_s > 10 else all_kept[4:]
    model.scan()


def test_a_segment_that_seems_to_be_of_the_future_keeps_none_before_it(tmp_path: Path) -> None:
    model = a_log()
    first, second, *_ = sorted(name for name in model.disk.names_seen if name.startswith("kept-"))
    model.disk.names_seen[first].time = 10**19
    model.log.close()
    model.recover()
    assert model.log.kept.expire() == 6.0  # it is not younger than the one behind it
    model.now_ns += 6 * _SECOND_NS
    model.log.kept.expire()
    assert first not in model.disk.names_seen
    assert second in model.disk.names_seen


def test_a_file_system_that_sets_no_times_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_args: object, **_more: object) -> None:
        raise PermissionError

    disk, file = Disk(), tmp_path / "log-0000000000000001"
    file.write_bytes(b"x")
    segments = KeptSegments(disk, tmp_path, Keep(10**6, 10.0), Path.unlink)
    descriptor = disk.open(file)
    segments.end(descriptor)
    assert abs(disk.time(descriptor) - Keep().clock()) < 60 * _SECOND_NS
    monkeypatch.setattr("os.utime", refuses)
    segments.end(descriptor)
    disk.close(descriptor)
