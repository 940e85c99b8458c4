"""Outputs as rows of real databases, each once, whatever is killed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.connectors.publishing import PublishingOutbox
from tests.gateway.harness import NOWHERE
from tests.helpers import wait_until
from wallaroo.connectors import threads
from wallaroo.connectors.sql import table as table_module
from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.connectors.sql.sink import SQLSinkWriter
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.metrics import catalogue
from wallaroo.wire.rows import packed_row

TABLE = """
CREATE TABLE {name} (
    id INTEGER PRIMARY KEY CHECK (id <> 13), item VARCHAR(20) UNIQUE, price NUMERIC(10, 2),
    day DATE, at TIMESTAMP, extra JSON, number INTEGER DEFAULT 7)
"""
NAMES = (f"totals_{number}" for number in itertools.count())


class Written:
    """A database with an empty table."""

    def __init__(self, url: str) -> None:
        self.url, self.table = url, next(NAMES)
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.execute(TABLE.format(name=self.table))

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def rows(self, columns: str = "id, item") -> list[tuple[Any, ...]]:
        with self.engine.begin() as connection:
            query = f"SELECT {columns} FROM {self.table} ORDER BY id"
            return [tuple(row) for row in connection.execute(sa.text(query))]


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    if request.param == "postgresql":
        return Written(request.getfixturevalue("postgresql").url)
    return Written(f"sqlite:///{tmp_path / 'shop.db'}")


class Writing(PublishingOutbox):
    """An outbox and the sink that writes its outputs; may be stopped and started."""

    def __init__(self, path: Path, database: Written, **how: Any) -> None:
        super().__init__(path)
        how = {"table": database.table} | how
        self.sink = SQLSink("totals", bytes, NOWHERE, how.pop("url", database.url), **how)
        self.start()

    def start(self) -> None:
        self.open()
        self.writer = SQLSinkWriter(self.context, 0, self.sink)

    def stop(self) -> None:
        self.writer.stop()
        self.close()

    def publish_rows(self, *rows: dict[str, Any]) -> None:
        self.publish(*map(packed_row, rows))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    monkeypatch.setattr(threads, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(threads, "RETRY_MOST_S", 0.05)


def test_rows_of_any_types_are_written_in_order(database: Written, tmp_path: Path) -> None:
    writing = Writing(tmp_path, database)
    at, day = datetime(2026, 7, 1, 12, 30, 0, 5), date(2026, 7, 1)
    writing.publish_rows(
        {"id": 1, "item": "è\n'", "price": Decimal("0.10"), "day": day, "at": at},
        {"id": 2, "extra": {"a": [1, None]}, "number": None},
        {"id": 3},
    )
    writing.publish_rows({"id": 4, "item": "nut"})
    writing.wait_until_delivered()
    assert database.rows() == [(1, "è\n'"), (2, None), (3, None), (4, "nut")]
    assert [row[0] for row in database.rows("number")] == [7, None, 7, 7]
    table = sa.Table(database.table, sa.MetaData(), autoload_with=database.engine)
    with database.engine.begin() as connection:
        one, two, *_ = connection.execute(sa.select(table).order_by(table.c.id))
    assert (one.price, one.day, one.at) == (Decimal("0.10"), day, at)
    assert two.extra == {"a": [1, None]}
    samples = {sample.metric: sample.value for sample in writing.writer.samples()}
    assert samples[catalogue.SQL_ROWS] == 4
    assert 1 <= float(str(samples[catalogue.SQL_TRANSACTIONS])) <= 2
    writing.stop()


def test_rows_with_the_same_key_are_updated(database: Written, tmp_path: Path) -> None:
    writing = Writing(tmp_path, database, key=("id",))
    writing.publish_rows({"id": 1, "item": "a", "number": 1}, {"id": 2}, {"id": 1, "item": "b"})
    writing.publish_rows({"id": 1, "item": "c"}, {"id": 1, "item": "d"}, {"id": 2}, {"id": 3})
    writing.wait_until_delivered()
    assert database.rows("id, item, number") == [(1, "d", 1), (2, None, 7), (3, None, 7)]
    assert writing.letters() == []
    writing.stop()


def test_the_last_row_wins_where_keys_are_equal_and_look_different(
    database: Written, tmp_path: Path
) -> None:
    table = f"{database.table}_keyed"
    database.execute(f"CREATE TABLE {table} (amount NUMERIC PRIMARY KEY, word TEXT)")
    writing = Writing(tmp_path, database, table=table, key=("amount",))
    rows = [(1, "first"), (2, "other"), (1.0, "second"), (1, "third")]
    writing.publish_rows(*({"amount": amount, "word": word} for amount, word in rows))
    writing.publish_rows({"amount": 2, "word": "a"}, {"amount": 2.0, "word": "b"})
    writing.wait_until_delivered()
    with database.engine.begin() as connection:
        written = connection.execute(sa.text(f"SELECT amount, word FROM {table} ORDER BY amount"))
        assert [tuple(row) for row in written] == [(1, "third"), (2, "b")]
    assert writing.letters() == []
    writing.stop()


def test_rows_that_the_database_refuses_are_dead_letters_and_the_others_are_there(
    database: Written, tmp_path: Path
) -> None:
    database.execute(f"INSERT INTO {database.table} (id, item) VALUES (100, 'taken')")
    writing = Writing(tmp_path, database)
    bad: list[dict[str, Any]] = [
        *({"id": 13}, {"id": 100}, {"id": 50, "item": "taken"}, {"id": 51, "colour": "red"}),
        *({"id": 52, "item": {"a": 1}}, {"id": 53, "day": "no day"}),
    ]
    good = [{"id": number} for number in range(1, 8)]
    mixed = [row for pair in itertools.zip_longest(good, bad) for row in pair if row]
    writing.publish_rows(*mixed)
    writing.publish_rows({"id": 8})
    writing.wait_until_delivered()
    assert [row[0] for row in database.rows()] == [*range(1, 9), 100]
    letters = writing.letters()
    assert [letter.payload for letter in letters] == [packed_row(row) for row in bad]
    assert [letter.place for letter in letters] == [f"output {2 * n}" for n in range(1, 7)]
    errors = [letter.error for letter in letters]
    assert "id" in errors[1]
    assert errors[3] == f"table {database.table} has no column 'colour'"
    assert errors[4] == "column 'item' takes no dict"
    assert {letter.step for letter in letters} == {"sink totals"}
    assert not any("INSERT" in error or "\n" in error for error in errors)
    writing.stop()


@pytest.mark.parametrize("then", [Policy.SET_ASIDE, Policy.DROP])
def test_what_is_refused_stops_the_application_by_its_policy(
    database: Written, tmp_path: Path, then: Policy
) -> None:
    writing = Writing(tmp_path, database)
    writing.publish_rows({"id": 1})
    writing.wait_until_delivered()
    writing.stop()
    writing.refusals = Policy.STOP
    for rows in ([{"id": 2}, {"id": 13}, {"id": 3}], []):  # a second start stops as well
        writing.start()
        if rows:
            writing.publish_rows(*rows)
        wait_until(lambda: writing.outbox.stopped, "the end")
        told = writing.outbox.stopped or ""
        assert told.startswith("stopped because of --on-error: sink totals, output 3: ")
        assert "; the output: b'" in told
        assert writing.writer.problem == told
        assert (writing.outbox.undelivered, writing.letters()) == (3, [])
        writing.stop()
    writing.refusals = then
    writing.start()
    writing.publish_rows({"id": 4})
    writing.wait_until_delivered()
    assert database.rows("id") == [(1,), (2,), (3,), (4,)]
    places = [letter.place for letter in writing.letters()]
    assert places == (["output 3"] if then is Policy.SET_ASIDE else [])
    writing.stop()


def test_what_no_value_of_python_is_for_a_column_is_refused(
    postgresql: Any, tmp_path: Path
) -> None:
    database = Written(postgresql.url)
    table = database.table
    database.execute(f"ALTER TABLE {table} ADD twice INT GENERATED ALWAYS AS (id * 2) STORED")
    database.execute(f"ALTER TABLE {table} ADD given INT GENERATED ALWAYS AS IDENTITY")
    database.execute(f"ALTER TABLE {table} ADD text TEXT UNIQUE, ADD place INET, ADD data BYTEA")
    database.execute(
        f"CREATE FUNCTION {table}_check() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.number = 66 THEN RAISE EXCEPTION 'not 66'; END IF; RETURN NEW; END $$"
    )
    database.execute(
        f"CREATE TRIGGER checked BEFORE INSERT ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_check()"
    )
    writing = Writing(tmp_path, database)
    random = "".join(map(chr, Random(1).choices(range(33, 9000), k=9000)))  # it does not compress
    bad: list[dict[str, Any]] = [
        *({"id": 1, "twice": 5}, {"id": 2, "given": 7}, {"id": 3, "text": random}),
        *({"id": 4, "place": 1}, {"id": 5, "number": 66}),
        *({"id": UUID(int=1)}, {"id": 6, "day": 20260701}, {"id": 7, "price": True}),
    ]
    good = [{"id": number} for number in range(20, 31)]
    writing.publish_rows(*(row for pair in itertools.zip_longest(good, bad) for row in pair if row))
    writing.wait_until_delivered()
    assert database.rows("id") == [(number,) for number in range(20, 31)]
    assert [letter.payload for letter in writing.letters()] == [packed_row(row) for row in bad]
    writing.stop()


def test_a_database_that_was_restored_from_a_backup_is_told_with_both_numbers(
    database: Written, tmp_path: Path
) -> None:
    writing = Writing(tmp_path, database)
    writing.publish_rows(*({"id": number} for number in range(3)))
    writing.wait_until_delivered()
    writing.publish_rows(*({"id": number} for number in range(20, 25)))
    writing.wait_until_delivered()
    writing.stop()
    name = writing.outbox.numbering(writing.writer._sink.name)
    database.execute(f"DELETE FROM {database.table} WHERE id >= 20")  # as the backup has it
    database.execute(f"UPDATE wallaroo_outputs SET next = 3 WHERE sink = '{name}'")
    writing.start()
    writing.publish_rows({"id": 30})
    wait_until(lambda: writing.writer.problem)
    problem = writing.writer.problem or ""
    assert f"table {database.table} of " in problem
    assert "has the first 3 outputs, and 8 were delivered" in problem
    assert "Output 4 to 8 is no longer kept" in problem
    assert "on_lost='skip'" in problem
    assert database.rows("id") == [(0,), (1,), (2,)]
    writing.stop()
    writing.sink = dataclasses.replace(writing.sink, skips_lost=True)
    with capture_logs() as logs:
        writing.start()
        writing.wait_until_delivered()
    assert database.rows("id") == [(0,), (1,), (2,), (30,)]
    (told,) = [entry for entry in logs if entry["event"] == "outputs lost"]
    assert "has the first 3 outputs, and 8 were delivered" in told["reason"]
    writing.stop()
    database.execute(f"DELETE FROM wallaroo_outputs WHERE sink = '{name}'")  # another database
    writing.sink = dataclasses.replace(writing.sink, skips_lost=False)
    with capture_logs() as logs:
        writing.start()
        writing.publish_rows({"id": 31})
        writing.wait_until_delivered()
    assert "has the first 0 outputs, and 9 were delivered" in str(logs)
    writing.stop()


def test_what_is_refused_may_wait_instead(database: Written, tmp_path: Path) -> None:
    writing = Writing(tmp_path, database, sets_aside=False)
    database.execute(f"INSERT INTO {database.table} (id) VALUES (1)")
    writing.publish_rows({"id": 1}, {"id": 2})
    wait_until(lambda: writing.writer.problem, "a failure")
    assert database.rows("id") == [(1,)]
    database.execute(f"DELETE FROM {database.table}")
    writing.wait_until_delivered()
    assert database.rows("id") == [(1,), (2,)]
    assert writing.letters() == []
    writing.stop()


def test_a_table_that_is_missing_or_altered_is_waited_for(
    database: Written, tmp_path: Path
) -> None:
    writing = Writing(tmp_path, database, table="later")
    database.execute("DROP TABLE IF EXISTS later")
    writing.publish_rows({"a": 1})
    wait_until(lambda: writing.writer.problem, "a failure")
    where = database.url.replace("app@", "").replace("+psycopg", "")
    assert writing.writer.problem == f"there is no table later of {where}; create it"
    database.execute("CREATE TABLE later (id INTEGER, a INTEGER)")
    writing.wait_until_delivered()
    database.execute("ALTER TABLE later ADD COLUMN b INTEGER")
    writing.publish_rows({"a": 2, "b": 3})
    writing.wait_until_delivered()
    assert writing.letters() == []
    writing.stop()


def test_a_key_that_is_no_column_is_told(database: Written, tmp_path: Path) -> None:
    writing = Writing(tmp_path, database, key=("colour",))
    writing.publish_rows({"id": 1})
    wait_until(lambda: writing.writer.problem, "a failure")
    assert str(writing.writer.problem).startswith(
        "key has 'colour', which is not a column of table "
    )
    writing.stop()


def test_a_server_that_is_killed_is_waited_for(postgresql: Any, tmp_path: Path) -> None:
    database = Written(postgresql.url)
    writing = Writing(tmp_path, database)
    for turn in range(3):
        writing.publish_rows(*[{"id": 20 * turn + n} for n in range(14, 34)])
        if turn == 1:
            writing.wait_until_delivered()
        postgresql.stop()
        writing.publish_rows({"id": -turn})
        wait_until(lambda: writing.writer.problem, "a failure")
        postgresql.start()
        writing.wait_until_delivered()
    assert [row[0] for row in database.rows()] == [-2, -1, 0, *range(14, 74)]
    writing.stop()


def test_a_second_writer_of_the_same_name_repeats_nothing(
    database: Written, tmp_path: Path
) -> None:
    writing = Writing(tmp_path, database)
    writing.publish_rows({"id": 1})
    writing.wait_until_delivered()
    other = SQLSinkWriter(writing.context, 0, writing.sink)  # as one that was thought dead
    for number in range(2, 40):
        writing.publish_rows({"id": number + 100})
    writing.wait_until_delivered()
    other.stop()
    assert [row[0] for row in database.rows()] == [1, *range(102, 140)]
    assert writing.letters() == []
    writing.stop()


def test_passwords_are_taken_from_files_and_variables_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_HOST", "127.0.0.1")
    (tmp_path / "password").write_text("tell-nobody\n")
    database = Written(f"sqlite:///{tmp_path / 'shop.db'}")
    url = "postgresql+psycopg://app@${SHOP_HOST}:1/shop"
    writing = Writing(tmp_path, database, url=url, password_file=tmp_path / "password")
    assert str(writing.writer._database.engine.url.password) == "tell-nobody"
    writing.publish_rows({"id": 1})
    wait_until(lambda: writing.writer.problem, "a failure")
    assert "refused" in str(writing.writer.problem)
    assert "tell-nobody" not in str(writing.writer.problem)
    assert writing.writer._database.redacted("a tell-nobody b") == "a … b"
    writing.stop()


class Kill(Exception):
    """What ends a transaction in its midst."""


@pytest.fixture(params=["postgresql", "sqlite"], scope="module")
def kept_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql").url
    else:
        yield f"sqlite:///{tmp_path_factory.mktemp('kept') / 'shop.db'}"


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=6),
    st.sets(st.integers(0, 12), max_size=3),
)
def test_wherever_a_writer_is_killed_each_output_is_there_once_or_a_letter(
    kept_database: str,
    tmp_path_factory: pytest.TempPathFactory,
    deliveries: list[int],
    kills: list[int],
    bad: set[int],
) -> None:
    database = Written(kept_database)
    places = ["sql-sink-after-number", "sql-sink-before-commit", "sql-sink-after-commit"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "IDLE_WAIT_S", 0.01)
        patch.setattr(threads, "RETRY_FIRST_S", 0.001)
        waiting = list(kills)

        def die(place: str) -> None:
            if waiting and places[min(waiting[0], 2)] == place:
                waiting.pop(0)
                raise Kill

        patch.setattr(table_module, "fault", die)
        writing = Writing(tmp_path_factory.mktemp("kills"), database)
        delivered = Outbox.delivered

        def die_or_deliver(self: Outbox, *args: Any, **kwargs: Any) -> None:
            if waiting and waiting[0] == 3:
                waiting.pop(0)
                raise Kill
            delivered(self, *args, **kwargs)

        patch.setattr(Outbox, "delivered", die_or_deliver)
        number = 0
        for count in deliveries:
            made = range(number, number + count)
            writing.publish_rows(*[{"id": 13 if n in bad else 100 + n} for n in made])
            number += count
        writing.wait_until_delivered()
        letters = writing.letters()
        writing.stop()
    due = [n for n in range(number) if n not in bad]
    assert [row[0] for row in database.rows()] == [100 + n for n in due]
    assert [letter.place for letter in letters] == [
        f"output {n + 1}" for n in range(number) if n in bad
    ]
