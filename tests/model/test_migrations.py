"""State classes that change: saved by one version of the code, loaded by a later one."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, chunks
from wallaroo.api.timers import Timers
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.errors import ApplicationError, UsageError
from wallaroo.model.application import Application
from wallaroo.model.migrations import Versions
from wallaroo.model.timing import KeyTime
from wallaroo.resolution.application import resolve
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.transfer import Packer, read_entities, written_entity

MODULE = "evolving"
FIRST = """
class Totals:
    {slots}
    def __init__(self):
        self.count = 0
        self.note = None
"""
SECOND = """
class Totals:
    {slots2}
    def __init__(self):
        self.votes = 0
        self.note = None
"""
THIRD = """
class Totals:
    {slots3}
    def __init__(self):
        self.votes = [0]
        self.last = ""
"""
MIGRATIONS = """
import wallaroo

@wallaroo.migrate(Totals, from_version=1)
def rename(fields):
    fields["votes"] = fields.pop("count")
    return fields
"""
MORE = """
@wallaroo.migrate(Totals, from_version=2)
def gather(fields):
    return {"votes": [fields["votes"]], "last": str(fields["note"])}
"""
SLOTS = {
    "slots": "__slots__ = 'count', 'note'",
    "slots2": "__slots__ = 'votes', 'note'",
    "slots3": "__slots__ = 'votes', 'last'",
}
DICT = dict.fromkeys(SLOTS, "")
LAST = [THIRD, MIGRATIONS, MORE]


class Own:
    """Pickled in a way of its own, so entities with one are saved each by itself."""

    def __reduce__(self) -> Any:
        return Own, ()

    def __str__(self) -> str:
        return "own"


@pytest.fixture(autouse=True)
def _no_module_is_left() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def code(*parts: str, form: dict[str, str] = DICT) -> Any:
    """The module of a version of the code, in the place of an earlier one."""
    module: Any = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    for part in parts:
        exec(part.format(**form) if "class" in part else part, module.__dict__)
    return module


def serializer(kind: Any) -> EntitySerializer:
    versions = Versions.of(kind)
    return EntitySerializer(["totals"], versions={} if versions is None else {0: versions})


def record(kind: Any, entities: dict[Any, Any]) -> bytes:
    return serializer(kind).record(Changes([entities], [set()]))


notes = st.none() | st.integers() | st.text(max_size=3) | st.builds(Own)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([DICT, SLOTS]),
    st.dictionaries(st.text(max_size=3), st.tuples(st.integers(), notes), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_entities_of_every_form_are_migrated_step_by_step(
    form: dict[str, str], told: dict[str, tuple[int, Any]], shared: bool, by_second: bool
) -> None:
    kind = code(*([SECOND, MIGRATIONS] if by_second else [FIRST]), form=form).Totals
    saved = {}
    for key, (count, note) in told.items():
        entity = saved[key] = kind()
        setattr(entity, "votes" if by_second else "count", count)
        entity.note = note
    part = record(kind, saved)
    later = code(*LAST, form=form).Totals
    found = serializer(later)
    bucket = found.read([part])
    assert not bucket.unloaded
    (entities,) = bucket.entities
    assert {type(entity) for entity in entities.values()} == {later}
    assert {key: (e.votes, e.last) for key, e in entities.items()} == {
        key: ([count], str(note)) for key, (count, note) in told.items()
    }
    assert found.migrated == {0: len(told)}
    again = serializer(later)
    assert not again.read([record(later, entities)]).unloaded
    assert not again.migrated, "what is saved again has the version of the code"


def test_what_cannot_be_migrated_is_named_and_kept_until_it_can() -> None:
    kind = code(FIRST).Totals
    fine, wrong = kind(), kind()
    del wrong.count
    part = record(kind, {"fine": fine, "wrong": wrong})
    later = code(*LAST).Totals
    found = serializer(later)
    bucket = found.read([part])
    assert bucket.entities == [{"fine": bucket.entities[0]["fine"]}]
    ((where, unloaded),) = bucket.unloaded.items()
    assert where == (0, "wrong")
    assert str(unloaded).startswith(
        "state 'totals', key 'wrong': the entity, of class evolving.Totals, cannot be loaded: "
        "MigrationError: migration from version 1 ("
    )
    assert "KeyError: 'count'" in str(unloaded)
    # a record of all entities, as it is written when a log has grown
    base = found.record(Changes(bucket.entities, [set()]), bucket.unloaded, grown=False)
    lenient = MIGRATIONS.replace('.pop("count")', '.pop("count", 7)')
    better = serializer(code(THIRD, lenient, MORE).Totals).read([base])
    assert not better.unloaded
    assert better.entities[0]["wrong"].votes == [7]


TIMED = """
import wallaroo

class Totals:
    def __init__(self):
        self.{0} = 0
        self.since, self.number = wallaroo.now(), wallaroo.rng().random()
"""


def test_a_constructor_may_ask_for_the_time_and_random_numbers_of_its_message() -> None:
    kind = code(TIMED.replace("{0}", "count")).Totals
    entity = kind()
    part = record(kind, {"a": entity})
    later = code(TIMED.replace("{0}", "votes"), MIGRATIONS).Totals
    bucket = serializer(later).read([part])
    assert not bucket.unloaded
    migrated = bucket.entities[0]["a"]
    assert (migrated.since, migrated.number) == (entity.since, entity.number)
    assert migrated.votes == 0


def test_an_entity_of_a_later_version_is_kept() -> None:
    kind = code(*LAST).Totals
    part = record(kind, {"a": kind()})
    earlier = serializer(code(FIRST).Totals)
    (unloaded,) = earlier.read([part]).unloaded.values()
    assert "it is of version 3 of its class, and the code has version 1" in str(unloaded)


@pytest.mark.parametrize(
    ("migration", "sentence"),
    [
        ("return None", "it returned None, and not a dictionary; return the fields"),
        ("return {}", "the result lacks the field 'note' that class Totals has"),
        ("return {**fields, 'votes': 1, 3: 4}", "class Totals does not take the result"),
    ],
)
def test_a_result_that_does_not_fit_is_told(migration: str, sentence: str) -> None:
    kind = code(FIRST).Totals
    part = record(kind, {"a": kind()})
    made = code(SECOND, f"{MIGRATIONS.split('    fields', maxsplit=1)[0]}    {migration}\n").Totals
    (unloaded,) = serializer(made).read([part]).unloaded.values()
    assert sentence in str(unloaded)


@wallaroo.key_extractor
def whole(name: str) -> str:
    return name


def application(module: Any) -> Application:
    def count(name: str, totals: Any) -> str:
        field = "count" if hasattr(totals, "count") else "votes"
        value = getattr(totals, field)
        if isinstance(value, list):
            value[0] += 1
            return f"{name}: {value[0]}"
        setattr(totals, field, value + 1)
        return f"{name}: {value + 1}"

    step = wallaroo.state_computation(name="count", state=module.Totals)(count)  # type: ignore[no-untyped-call]
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decoder))
    keyed = source.key_by(whole)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    return resolve(wallaroo.build_application("voting", keyed.to(step).to_sink(sink)))


def test_an_application_goes_on_where_earlier_code_stopped() -> None:
    sent = [("p", name) for name in (b"a", b"b", b"a")]
    first = application(code(FIRST))
    driven = Driven(first)
    (batch,) = chunks(first, sent, [0, 0, 0])
    driven.batch(batch)
    later = Driven(application(code(*LAST)))
    later.go_on_from(driven)
    later.batch(batch)
    assert sorted(later.outputs["p"]) == [b"a: 3", b"a: 4", b"b: 2"]
    later.restart()
    assert {key: one.votes for key, one in later.state()["count"].items()} == {"a": [4], "b": [2]}


def test_a_state_directory_is_refused_only_where_no_migration_leads_on(tmp_path: Path) -> None:
    check_state_classes(tmp_path, application(code(FIRST)))
    with pytest.raises(UsageError, match="now has the field 'votes'"):
        check_state_classes(tmp_path, application(code(SECOND)))
    check_state_classes(tmp_path, application(code(*LAST)))
    check_state_classes(tmp_path, application(code(*LAST)))
    with pytest.raises(UsageError) as refused:
        check_state_classes(tmp_path, application(code(THIRD, "import wallaroo", MORE)))
    assert "may have entities of version 1 of class Totals" in str(refused.value)
    assert "add @wallaroo.migrate(Totals, from_version=1)" in str(refused.value)
    with pytest.raises(UsageError, match=r"of version 3 of class Totals, and the code has .* 1"):
        check_state_classes(tmp_path, application(code(FIRST)))


@pytest.mark.parametrize("form", ["json", "pickle"])
def test_an_export_of_earlier_code_is_imported(form: Any, tmp_path: Path) -> None:
    kind = code(FIRST).Totals
    entity = kind()
    entity.count = 5
    time = KeyTime(7, 7, 7, {"timer": 9})
    file = tmp_path / "export"
    file.write_bytes(written_entity("count", "a", entity, form, time))
    made = application(code(*LAST))
    versions = {p.name: p.versions for p in made.partitions.values() if p.versions is not None}
    (imported,) = read_entities(file, form, "export", versions)
    assert (imported.entity.votes, imported.time) == ([5], time)
    ((_, record),) = Packer(Program(made, 8)).pack([imported])
    bucket = EntitySerializer(["count"], versions={0: versions["count"]}).read([record])
    assert (bucket.entities[0]["a"].votes, bucket.unloaded) == ([5], {})
    file.write_bytes(written_entity("count", "a", imported.entity, form, None, 9))
    with pytest.raises(UsageError, match="it is of version 9 of its class"):
        list(read_entities(file, form, "export", versions))


def test_an_import_names_the_entity_that_cannot_be_migrated(tmp_path: Path) -> None:
    kind = code(FIRST).Totals
    line = json.loads(written_entity("count", "a", kind(), "json"))
    del line["entity"]["count"]
    file = tmp_path / "export"
    file.write_text(json.dumps(line))
    versions = {"count": Versions.of(code(*LAST).Totals)}
    with pytest.raises(UsageError, match=r"state 'count', key 'a': migration from version 1 "):
        list(read_entities(file, "json", "export", versions))  # type: ignore[arg-type]


def test_a_gap_between_migrations_is_refused() -> None:
    with pytest.raises(ApplicationError) as refused:
        application(code(THIRD, MIGRATIONS, MORE.replace("=2", "=3")))
    assert "has a migration from version 1, but none from version 2" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: wallaroo.migrate(dict, from_version=1), "expected a state class"),
        (lambda: wallaroo.migrate(Timers, from_version=0), "the first version of a class is 1"),
        (lambda: wallaroo.migrate(Timers, from_version="1"), "from_version is '1'; expected"),  # type: ignore[arg-type]
        (lambda: code(*LAST, MORE), "already has a migration from version 2, at "),
    ],
)
def test_wrong_migrations_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()


TREE = """
class Tree:
    def __init__(self, parent=None):
        self.parent, self.me, self.size = parent, self, 1
        self.children = [] if parent else [Tree(self), Tree(self)]
"""
LATER_TREE = (
    TREE.replace("size", "weight")
    + """
import wallaroo

@wallaroo.migrate(Tree, from_version=1)
def weigh(fields):
    fields["weight"] = 10 * fields.pop("size")
    return fields
"""
)


def test_objects_that_an_entity_refers_to_and_that_refer_back_are_migrated_with_it() -> None:
    kind = code(TREE).Tree
    part = record(kind, {"a": kind(), "b": kind()})
    later = code(LATER_TREE).Tree
    bucket = serializer(later).read([part])
    assert not bucket.unloaded
    for tree in bucket.entities[0].values():
        assert tree.me is tree
        assert [child.parent is tree for child in tree.children] == [True, True]
        assert {type(one) for one in (tree, *tree.children)} == {later}
        assert [one.weight for one in (tree, *tree.children)] == [10, 10, 10]
        assert not any(hasattr(one, "size") for one in (tree, *tree.children))


@pytest.mark.parametrize(
    ("contains", "sentence"),
    [
        (True, "it contains another object of class Tree, which has slots"),
        (False, "it refers to itself, and class Tree has slots"),
    ],
)
def test_what_refers_to_an_entity_with_slots_is_not_left_as_it_was(
    contains: bool, sentence: str
) -> None:
    def with_slots(tree: str, *names: str) -> str:
        lines = f"class Tree:\n    __slots__ = {names}\n"
        return tree.replace("class Tree:\n", lines).replace("if parent", "if True")

    kind = code(with_slots(TREE, "parent", "me", "size", "children")).Tree
    entity = kind()
    if contains:
        entity.me, entity.children = None, [kind()]
        entity.children[0].me = None
    part = record(kind, {"a": entity})
    later = code(with_slots(LATER_TREE, "parent", "me", "weight", "children")).Tree
    (unloaded,) = serializer(later).read([part]).unloaded.values()
    assert sentence in str(unloaded.error)


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (
            "class Totals(dict): pass\n" + MIGRATIONS,
            "class Totals cannot have migrations: object.__new__(Totals) is not safe",
        ),
        (
            SECOND + MIGRATIONS.replace("def rename", "async def rename"),
            "migration from version 1: it is declared with async def",
        ),
        (
            SECOND + MIGRATIONS.replace("rename(fields)", "rename(fields, more)"),
            "migration from version 1 is called with (fields): missing a required argument",
        ),
    ],
)
def test_a_migration_that_cannot_work_is_refused_at_once(declared: str, sentence: str) -> None:
    with pytest.raises(ApplicationError) as refused:
        application(code(declared))
    assert sentence in str(refused.value)
