"""What `wallaroo state import` takes, and what it refuses before anything is written."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pickle
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.applications import timing
from tests.helpers import ROOT
from wallaroo.cli.main import main
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.json_codec import from_plain, to_plain
from wallaroo.dataflow.program import Program
from wallaroo.errors import UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.timing import KeyTime
from wallaroo.run.state.transfer import Packer, read_entities, written_entity

APP = str(ROOT / "apps" / "word_count")
A = {"$class": "application:WordTotals", "word_totals": {"a": 1}}


class Color(enum.Enum):
    RED = "red"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass(slots=True)
class Slotted:
    values: list[Point]
    color: Color = Color.RED


@dataclass(frozen=True)
class Frozen:
    at: datetime.datetime
    by_point: dict[Point, Slotted] = field(default_factory=dict)


class OwnState:
    def __init__(self) -> None:
        self.doubled = 4

    def __getstate__(self) -> int:
        return self.doubled // 2

    def __setstate__(self, half: int) -> None:
        self.doubled = half * 2


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.just(datetime.UTC) | st.none())
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
    | st.builds(Point, st.integers(), st.integers())
    | st.sampled_from([*Color, *Level, *Right, Right.READ | Right.WRITE])
)
keys = scalars | st.tuples(scalars, scalars) | st.frozensets(scalars, max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(keys, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3).map(collections.OrderedDict)
        | st.lists(inner, max_size=3).map(collections.deque)
    ),
    max_leaves=8,
)


@given(values)
def test_values_come_back_from_json_as_they_were(value: Any) -> None:
    back = from_plain(json.loads(json.dumps(to_plain(value))))
    assert type(back) is type(value)
    assert back == value


def test_objects_come_back_from_json_as_pickling_gives_them() -> None:
    slotted = Slotted([Point(1, 2)])
    frozen = Frozen(datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC), {Point(1, 2): slotted})
    counts = collections.defaultdict(int, {"a": 1})
    for value in (
        slotted,
        frozen,
        counts,
        collections.Counter("abca"),
        decimal.Decimal("1.50"),
        uuid.UUID(int=7),
    ):
        back = from_plain(json.loads(json.dumps(to_plain(value))))
        assert (type(back), back) == (type(value), value)
    back = from_plain(to_plain(counts))
    assert back["new"] == 0
    assert from_plain(to_plain(OwnState())).doubled == 4


def test_what_json_does_not_carry_is_shown_and_not_read_back() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (circle, lambda: None, {"a": open}):
        told = to_plain(value)
        assert "$repr" in json.dumps(told)
        with pytest.raises(ValueError, match=r"JSON cannot represent .*--format pickle"):
            from_plain(told)


def refused(tmp_path: Path, content: bytes, *options: str) -> str:
    """Why an import into a new state directory is refused; none is made."""
    file, state = tmp_path / "export", tmp_path / "state"
    file.write_bytes(content)
    called = ["state", "import", APP, str(file), "--state-dir", str(state), *options]
    result = CliRunner().invoke(main, called, standalone_mode=False)
    assert isinstance(result.exception, click.ClickException)
    assert result.exception.exit_code == UsageError.exit_code
    assert not state.exists()
    return str(result.exception)


def line(state: str = "word totals", key: Any = "a", entity: Any = A) -> bytes:
    return json.dumps({"state": state, "key": key, "entity": entity}).encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"nonsense\n", "line 1: not an entity of an export as json: not valid JSON: Expecting"),
        (b'"\xff"\n', "line 1: not an entity of an export as json: not valid UTF-8: "),
        (
            line() + b"{}\n",
            "export, line 2: not an entity of an export as json: the field 'state' is missing: "
            "expected an object with state, key and entity",
        ),
        (
            b'{"state": "word totals", "key": "a"}\n',
            "line 1: not an entity of an export as json: the field 'entity' is missing",
        ),
        (
            b'["word totals", "a", {}]\n',
            'expected an object with state, key and entity, got ["word totals", "a", {}]',
        ),
        (b'{"state": 3, "key": 1, "entity": 2}\n', "'state' must be the name of a state, not 3"),
        (line(entity={"$set": 3}), "the field 'entity' cannot be decoded: TypeError: "),
        (line(key={"$nothing": 3}), "the field 'key' cannot be decoded: ValueError: there is no"),
        (pickle.dumps((("word totals", "a"), 1)), "the file is a pickle: use --format pickle"),
        (
            line(state="others"),
            "line 1: the application has no state 'others'; it has 'word totals'",
        ),
        (line(key="?"), "key '?': the key is not among those that the state lists"),
        (line(key=[]), "key []: InvalidKey: an object of class list is not a valid key"),
        (
            line() + line(),
            "line 2: state 'word totals', key 'a': the file has an earlier entity with this key",
        ),
        (line(entity={"a": 1}), "of class dict; expected application.WordTotals"),
        (
            line(entity={"$class": "application:WordTotals"}),
            "the entity lacks the field 'word_totals' that class application.WordTotals has",
        ),
        (line(entity={"$class": "application:Gone"}), "there is no class application:Gone"),
        (line(entity={**A, "word_totals": {"$repr": "f"}}), "export with --format pickle"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    assert reason in refused(tmp_path, content)


def test_pickles_are_checked_alike(tmp_path: Path) -> None:
    one = pickle.dumps((("word totals", "a"), {"a": 1}))
    assert "entity 1: state 'word totals', key 'a': the entity is of class dict" in refused(
        tmp_path, one, "--format", "pickle"
    )
    assert "entity 1: not an entity" in refused(tmp_path, one[:-3], "--format", "pickle")
    listed = pickle.dumps(["word totals", "a"])
    assert "expected ((state, key), entity), got ['word totals', 'a']" in refused(
        tmp_path, listed, "--format", "pickle"
    )
    assert "omit --format pickle" in refused(tmp_path, line(), "--format", "pickle")


def test_what_comes_on_standard_input_is_called_so(tmp_path: Path) -> None:
    called = ["state", "import", APP, "-", "--state-dir", str(tmp_path / "state")]
    result = CliRunner().invoke(main, called, input=line() + b"{}\n")
    assert "Error: standard input, line 2: not an entity of an export" in result.stderr


@pytest.mark.parametrize("form", ["json", "pickle"])
def test_as_much_silence_has_passed_after_an_import_as_at_the_export(
    tmp_path: Path, form: Any
) -> None:
    program = Program(ApplicationRef("tests.applications.timing", ()).load(), 8)
    file, seen_ns, then_ns, now_ns = tmp_path / "export", 40, 100, 5_000
    time = KeyTime(7, 9, seen_ns, {"again": 70})
    file.write_bytes(written_entity("call", "a", timing.Calls(), form, time, clock=then_ns))
    file.write_bytes(file.read_bytes() + written_entity("call", "b", timing.Calls(), form, time))
    records = [
        record
        for _, record in Packer(program, {0: now_ns}).pack(read_entities(file, form, "export"))
    ]
    times = EntitySerializer.of(program).read(records).times
    assert times[0, "a"] == dataclasses.replace(time, seen_ns=now_ns - (then_ns - seen_ns))
    assert times[0, "a"].reached(now_ns) == time.reached(then_ns)
    assert times[0, "b"] == time, "an export that does not say when it was made"


def test_the_clock_of_an_export_is_an_integer(tmp_path: Path) -> None:
    told = json.loads(line()) | {"clock": "noon"}
    problem = "line 1: not an entity of an export as json: the field 'clock' must be nanoseconds"
    assert problem in refused(tmp_path, json.dumps(told).encode())
