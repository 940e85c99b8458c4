"""When a driver that starts beside another one is ready, and when it is refused before."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run import taking_over
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.taking_over import await_turn, check_fit

CODE = """
import wallaroo


class Sum:
    def __init__(self):
        self.{field} = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    return data


@wallaroo.key_extractor
def key(data):
    return data


@wallaroo.state_computation(name="sums", state=Sum)
def add(data, state):
    return data


@wallaroo.encoder
def encode(data):
    return data


def application_setup(args):
    source = wallaroo.source("s", wallaroo.TCPSourceConfig("s", "127.0.0.1", 7010, decode))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
    return wallaroo.build_application("{name}", source.key_by(key).to(add).to_sink(sink))
"""


def application(directory: Path, name: str = "Sums", field: str = "total") -> Any:
    directory.mkdir(exist_ok=True)
    (directory / "app.py").write_text(CODE.format(name=name, field=field))
    return ApplicationRef(str(directory / "app.py"), ()).load()


def test_a_driver_that_does_not_fit_the_state_is_refused_while_that_is_in_use(
    tmp_path: Path,
) -> None:
    first = application(tmp_path / "first")
    state = tmp_path / "state"
    check_fit(state, first, 3)  # there is none yet
    used = StateDirectory(state, first.name, 2)
    check_state_classes(state, first)
    before = {file: file.stat().st_mtime_ns for file in state.iterdir()}
    check_fit(state, first, 2)
    with pytest.raises(UsageError, match="has 2 partitions, not 3"):
        check_fit(state, first, 3)
    with pytest.raises(UsageError, match="belongs to the application 'Sums', not to 'Others'"):
        check_fit(state, application(tmp_path / "others", name="Others"), 2)
    with pytest.raises(UsageError, match=r"state 'sums' in .* does not fit the application"):
        check_fit(state, application(tmp_path / "changed", field="sum"), 2)
    assert {file: file.stat().st_mtime_ns for file in state.iterdir()} == before
    used.close()


class Lease:
    """The lease of another driver, which hands over *looks* looks after this one is ready."""

    def __init__(self, looks: int = 2) -> None:
        self._looks, self.is_ready, self.refused = looks, False, 0

    def granted(self, _wait_s: float) -> int | None:
        if not self.is_ready:
            self.refused += 1
            return None
        self._looks -= 1
        return 7 if self._looks == 0 else None

    def be_ready(self) -> None:
        assert not self.is_ready
        self.is_ready = True


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    warmed: list[Any] = []
    monkeypatch.setattr(taking_over, "warm_up", lambda *given: warmed.append(given))
    return warmed


def turn(lease: Any, master: str, workers: int = 2, *, responds: bool = True) -> int:
    settings = EngineSettings(ApplicationRef("app", ()), master, workers=workers)
    return await_turn(MagicMock(), lease, settings, 4, Path("state"), lambda: responds)


def test_without_executors_of_its_own_it_is_ready_once_spark_is_warm(warmed: list[Any]) -> None:
    lease = Lease()
    assert turn(lease, "local[4]") == 7
    ((_session, partitions, directory),) = warmed
    assert (partitions, directory) == (4, Path("state"))


def test_it_is_ready_once_all_executors_are_there(
    warmed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = [["1"], ["1"], ["1", "2"]]

    class Executors:
        wanted = 2

        def running(self) -> list[str]:
            return found[min(lease.refused, len(found) - 1)]

    monkeypatch.setattr(taking_over, "Executors", lambda *_: Executors())
    lease = Lease()
    assert turn(lease, "k8s://cluster") == 7
    assert lease.refused == 2
    assert len(warmed) == 1


def test_it_takes_over_without_those_that_find_no_room_beside_the_others(
    warmed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    class Executors:
        wanted = 2

        def running(self) -> list[str]:
            return ["1"]

        def keep(self, names: Any) -> None:
            kept.append(names)

    monkeypatch.setattr(taking_over, "Executors", lambda *_: Executors())
    monkeypatch.setattr(taking_over, "_EXECUTORS_S", 0.0)
    assert turn(Lease(), "k8s://cluster", responds=False) == 7
    assert not warmed, "the query would wait for them"
    assert kept == [frozenset()], "the gateway's next pod may need their room"
