"""A state directory of this format is opened by every later version; one of another is refused."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.golden import ALL, BUCKETS, HERE, PRESENT, Golden, entities
from tests.helpers import unpack
from tests.spark.in_process import InProcess
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.dataflow.program import Program
from wallaroo.errors import UsageError
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import FORMAT, StateDirectory, read_fixed
from wallaroo.run.state.transfer import Form, read_entities
from wallaroo.system.sealed_files import sealed, unsealed
from wallaroo.testing import simulate

Told = dict[tuple[str, Any], tuple[type, Any]]
"""By state and key, the class of the key and what is told of the entity."""


def told(found: list[tuple[str, Any, Any]]) -> Told:
    return {(state, key): (type(key), to_plain(entity)) for state, key, entity in found}


def exported(name: str, form: Form) -> Told:
    file = PRESENT / f"{name}.{'jsonl' if form == 'json' else 'pickle'}"
    return told([entity[1:4] for entity in read_entities(file, form, str(file))])


@pytest.mark.spark
@pytest.mark.parametrize("name", ALL)
def test_a_run_goes_on_with_the_state_that_is_there(
    name: str, on_spark: InProcess, tmp_path: Path
) -> None:
    golden = ALL[name]
    application = golden.application.load()
    directory = unpack(PRESENT / f"{name}.tar.gz", tmp_path / "state")
    StateDirectory(directory, application.name, partitions=1).close()
    check_state_classes(directory, application)

    there = told(entities(on_spark.session, directory, golden))
    if application.serialization is None:
        assert exported(name, "pickle").items() <= there.items()
        assert exported(name, "json").items() <= there.items()
    due = simulate(application, golden.before)
    assert set(there) == {(state, key) for state in due.state for key in due.state[state]}

    made = on_spark.run(
        golden.application, golden.after, workers=1, buckets=BUCKETS, directory=directory
    )
    due = simulate(application, [*golden.before, *golden.after])
    assert {sink: Counter(outputs) for sink, outputs in made.by_sink.items()} == {
        sink: Counter(outputs) for sink, outputs in due.by_sink.items()
    }
    assert made.tally.set_aside == 0


def test_there_is_a_state_directory_of_the_present_format_for_each_application() -> None:
    """After a change of the format: `python -m tests.golden.make`."""
    names = {archive.name.partition(".")[0] for archive in PRESENT.glob("*.tar.gz")}
    assert names == set(ALL)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("micro-batch", "is of the micro-batch engine, which this version of wallaroo does not"),
        ("real-time", "has format 5, but this version of wallaroo reads format"),
    ],
)
def test_a_directory_of_a_former_version_is_refused_by_name_or_format(
    name: str, told: str, tmp_path: Path
) -> None:
    directory = unpack(HERE / f"format-5/{name}.tar.gz", tmp_path / "state")
    fixed = json.loads((directory / "application.json").read_text())
    refused(directory, fixed, told)


@pytest.mark.parametrize("there", [number for number in range(FORMAT + 2) if number != FORMAT])
@pytest.mark.parametrize("name", ALL)
def test_a_directory_of_another_format_is_refused_by_its_format(
    name: str, there: int, tmp_path: Path
) -> None:
    directory = unpack(PRESENT / f"{name}.tar.gz", tmp_path)
    file = directory / "application.json"
    fixed = unsealed(file.read_text())
    values = {**fixed, "format": there}
    # checksums came with format 5, and what else came later is not known
    file.write_text(json.dumps(values) if there < 5 else sealed({**values, "later": 1}))
    (directory / "checkpoint" / "engine").write_text("real-time")
    told = f"has format {there}, but this version of wallaroo reads format {FORMAT}"
    refused(directory, fixed, told)


def refused(directory: Path, fixed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_fixed(directory)
    with pytest.raises(UsageError, match=told):
        StateDirectory(directory, fixed["application"], fixed["partitions"])


@pytest.mark.parametrize("name", ALL)
def test_nothing_that_is_saved_tells_where_the_code_of_this_package_lies(
    name: str, tmp_path: Path
) -> None:
    """So modules of the package may be moved. Other names than these need another format."""
    pinned = {b"wallaroo.saved_names"}
    assert set(MODULE.findall(record_of(ALL[name]))) <= pinned
    directory = unpack(PRESENT / f"{name}.tar.gz", tmp_path)
    for file in (*PRESENT.glob(f"{name}.*"), *directory.rglob("*")):
        if file.is_file():
            assert set(MODULE.findall(file.read_bytes())) <= pinned, file


MODULE = re.compile(rb"wallaroo\.\w+(?:\.\w+)*")


def record_of(golden: Golden) -> bytes:
    """The state of *golden* as one record of a bucket's log."""
    program = Program(golden.application.load(), BUCKETS)
    serializer = EntitySerializer.of(program)
    state = simulate(program.application, golden.before).state
    changes = Changes([state[name] for name in serializer.partitions], [{"gone"} for _ in state])
    return serializer.record(changes)


def test_classes_that_are_saved_keep_their_names() -> None:
    for name in ("RangeEntity", "CountEntity", "TableEntity", "AsOfEntity", "IntervalEntity"):
        kind = pickle.loads(b"cwallaroo.saved_names\n%b\n." % name.encode())
        assert (kind.__module__, kind.__qualname__) == ("wallaroo.saved_names", name)
