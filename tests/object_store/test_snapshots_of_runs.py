"""Snapshots of applications whose state is on an object store, and runs of restored ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.object_store.test_runs import commits
from tests.spark.harness import APPS, Receiver, called, run
from tests.spark.test_snapshot import SOON, Taken, Traffic, check_run_of, take
from wallaroo.system.object_store import ObjectPath

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("jars")]


def app_in(directory: Path) -> Path:
    """The application, with its log below its directory."""
    return Path(shutil.copytree(APPS / "word_count", directory))


def test_a_snapshot_of_a_running_application_continues_from_its_moment_wherever_it_is_restored(
    tmp_path: Path, folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALLAROO_PACE", SOON)
    app, state, taken = app_in(tmp_path / "app"), folder / "state", list[Taken]()
    with Receiver("lines") as receiver, run(app, receiver, state) as running:
        traffic = Traffic(running, receiver)
        try:
            wait_until(lambda: commits(state) > 2, "some epochs")
            for number in range(4):
                taken.append(take(state, folder / f"copy-{number}", str(app)))
            taken.append(take(state, tmp_path / "copy", str(app)))
        finally:
            traffic.stop()
        receiver.wait_for(2 * traffic.sent)
        assert running.stop() == 0
        assert len(receiver.messages) == 2 * traffic.sent
    assert [one.position for one in taken] == sorted(one.position for one in taken)
    check_run_of(taken[-1])
    for one, place in ((taken[0], tmp_path / "restored"), (taken[3], folder / "restored")):
        other = app_in(tmp_path / f"app-{place.name}-{one.epoch}")
        result = called("restore", one.copy, other, "--state-dir", place)
        assert result.returncode == 0, result.stderr
        check_run_of(one._replace(copy=place), other)
    explained = called(
        *("explain", app, "x", "--state-dir", app / ".wallaroo" / "word-count-application"),
        *("--snapshot", taken[3].copy),
    )
    assert explained.returncode == 0, explained.stderr
