"""A start with other state classes than those of the saved entities."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.api.places import Place
from wallaroo.errors import DamagedFile, UsageError
from wallaroo.model.application import Application, Serialization, StatePartition
from wallaroo.model.windows import RangeWindows, SessionWindows, Windows
from wallaroo.run.state.classes import check_state_classes, hints_of_fields

AGGREGATION: Any = None
BEFORE = "class Seen:\n    def __init__(self):\n        self.count = 0\n        self.last = None\n"


class Upgrades:
    """A state directory, and a module whose code changes between starts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._module = directory / "upgraded_application.py"

    def start(
        self,
        code: str,
        serialization: Serialization | None = None,
        name: str = "Seen",
        state: str = "seen",
    ) -> None:
        check_state_classes(self.directory, self.application(code, serialization, name, state))

    def application(
        self,
        code: str,
        serialization: Serialization | None = None,
        name: str = "Seen",
        state: str = "seen",
    ) -> Application:
        self._module.write_text(code)
        sys.modules.pop(self._module.stem, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        try:
            kind: Any = getattr(importlib.import_module(self._module.stem), name)
        finally:
            sys.dont_write_bytecode = False
        partition = StatePartition(state, kind, None, Place("", 0))
        return Application("app", (), {state: partition}, serialization)


@pytest.fixture
def upgrades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upgrades:
    monkeypatch.syspath_prepend(tmp_path)
    return Upgrades(tmp_path)


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        BEFORE.replace("self.count = 0", "self.count = 0.0"),
        BEFORE.replace("self.last = None", "self.last = 'text'"),
        BEFORE.replace("        self.last = None\n", ""),
        BEFORE.replace(":\n    def", ":\n    total = 0\n    def") + "        self.total = 0\n",
        BEFORE + "        self.total = 0\n    def __setstate__(self, state): pass\n",
    ],
)
def test_a_class_that_fits_goes_on(upgrades: Upgrades, after: str) -> None:
    upgrades.start(BEFORE)
    upgrades.start(after)


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (BEFORE + "        self.total = 0\n", r"Seen now has the field 'total'.*\(total = …\)"),
        (BEFORE.replace("= 0", "= []"), "field 'count' of class Seen was int and is now list"),
        ("Seen = dict", "now creates dict"),
    ],
)
def test_a_class_that_does_not_fit_is_refused(upgrades: Upgrades, after: str, problem: str) -> None:
    upgrades.start(BEFORE)
    kept = (upgrades.directory / "state-classes.json").read_text()
    with pytest.raises(UsageError, match=rf"state 'seen'.*(?:{problem}).*--state-dir"):
        upgrades.start(after)
    assert (upgrades.directory / "state-classes.json").read_text() == kept


def test_a_field_that_may_have_been_renamed_is_said_to_need_a_migration(
    upgrades: Upgrades,
) -> None:
    upgrades.start(BEFORE)
    keep = (
        r"if it was 'count', keep its values with @wallaroo\.migrate\(Seen, from_version=1\); else"
    )
    with pytest.raises(UsageError, match=rf"'times', which the saved.*{keep} give.*\(times = …\)"):
        upgrades.start(BEFORE.replace("count", "times"))
    make = r", or make it with @wallaroo\.migrate\(Seen, from_version=1\)"
    with pytest.raises(UsageError, match=rf"'times', which the saved.*__setstate__{make}"):
        upgrades.start(BEFORE + "        self.times = 0\n")


def test_a_field_that_may_have_been_renamed_and_has_a_default_is_hinted_at(
    upgrades: Upgrades,
) -> None:
    def hints(code: str) -> list[str]:
        return [*hints_of_fields(upgrades.directory, upgrades.application(code))]

    upgrades.start(BEFORE)
    renamed = BEFORE.replace("count", "times").replace(":\n    def", ":\n    times = 0\n    def")
    (hint,) = hints(renamed)
    assert hint == (
        "state 'seen': the saved entities have 'count', which class Seen no longer has, and "
        "'times' will begin with the default of the class; if only the name has changed, keep the "
        "values with @wallaroo.migrate(Seen, from_version=1)"
    )
    assert hints(BEFORE) == hints(BEFORE.replace("        self.last = None\n", "")) == []


def test_a_class_that_is_not_there_any_more_is_refused(upgrades: Upgrades) -> None:
    upgrades.start(BEFORE)
    kept = (upgrades.directory / "state-classes.json").read_text()
    with pytest.raises(
        UsageError, match=r"class upgraded_application\.Seen, which no longer exists"
    ):
        upgrades.start(BEFORE.replace("Seen", "Counted"), name="Counted")
    assert (upgrades.directory / "state-classes.json").read_text() == kept
    upgrades.start(BEFORE.replace("Seen", "Counted") + "Seen = Counted\n", name="Counted")


def test_a_field_that_came_with_a_default_is_not_taken_for_one_that_all_have(
    upgrades: Upgrades,
) -> None:
    with_default = BEFORE.replace(":\n    def", ":\n    total = 0\n    def")
    upgrades.start(BEFORE)
    upgrades.start(with_default + "        self.total = 0\n")
    with pytest.raises(UsageError, match="'total'"):
        upgrades.start(BEFORE + "        self.total = 0\n")


def test_a_changed_file_is_told(upgrades: Upgrades) -> None:
    upgrades.start(BEFORE)
    file = upgrades.directory / "state-classes.json"
    file.write_text(file.read_text().replace("Seen", "Sean"))
    with pytest.raises(DamagedFile, match=r"classes\.json is damaged: its contents do not match"):
        upgrades.start(BEFORE)


def test_an_application_that_serializes_by_itself_is_not_judged(upgrades: Upgrades) -> None:
    upgrades.start(BEFORE)
    upgrades.start(BEFORE + "        self.total = 0\n", Serialization(bytes, bytes))


def test_a_state_that_the_application_no_longer_has_is_told_once(upgrades: Upgrades) -> None:
    upgrades.start(BEFORE)
    with capture_logs() as logs:
        upgrades.start(BEFORE)
        assert not logs
        upgrades.start(BEFORE, state="renamed")
    (told,) = logs
    assert (told["log_level"], told["state"]) == ("warning", "seen")
    assert "give it the old one" in told["remedy"]


def test_windows_of_another_kind_are_refused(tmp_path: Path) -> None:
    ranges = RangeWindows(10, 10, aggregation=AGGREGATION)
    sessions = SessionWindows(10, aggregation=AGGREGATION)

    def start(windows: Windows) -> None:
        partition = StatePartition("seen", windows.new_entity, None, Place("", 0), windows)
        check_state_classes(tmp_path, Application("app", (), {"seen": partition}))

    start(ranges)
    start(ranges)
    with pytest.raises(UsageError, match="it holds windows of time, but the code now has sessions"):
        start(sessions)
