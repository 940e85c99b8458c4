"""Which sources are read before others, as table joins ask for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import wallaroo
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application
from wallaroo.model.tables import reading_order, tables_of
from wallaroo.resolution.application import resolve

SINK = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(repr))


def rows(name: str) -> wallaroo.Pipeline[dict[str, str]]:
    config = wallaroo.CSVSourceConfig(f"{name}.csv", time=lambda row: int(row["at"]))
    return wallaroo.source(name, config).key_by(lambda row: row["id"])


def join(name: str, *, first: bool = True) -> Any:
    @wallaroo.table_join(name=name, table_first=first)
    def joined(left: Any, right: Any) -> Any:
        return {**left, **right}

    return joined


def resolved(*pipelines: Any) -> Application:
    ended = [one.to_sink(SINK) for one in pipelines]
    return resolve(wallaroo.build_application("app", *ended))


def before(application: Application) -> dict[str, set[str]]:
    names = [source.name for source in application.sources]
    return {names[at]: {names[table] for table in of} for at, of in tables_of(application).items()}


def order(application: Application) -> Sequence[set[str]]:
    names = [source.name for source in application.sources]
    return [{names[index] for index in group} for group in reading_order(application)]


def test_left_sources_wait_for_those_of_the_table() -> None:
    orders = rows("web").merge(rows("shop"))
    made = resolved(orders.join(rows("old").merge(rows("new")), join("names")), rows("other"))
    assert before(made) == {"web": {"old", "new"}, "shop": {"old", "new"}}
    assert order(made).index({"old"}) < order(made).index({"web"})


def test_a_table_that_is_joined_itself_waits_for_the_other_one() -> None:
    customers = rows("customers").join(rows("regions"), join("region"))
    made = resolved(rows("orders").join(customers, join("customer")))
    assert before(made) == {"orders": {"customers"}, "customers": {"regions"}}
    assert order(made) == [{"regions"}, {"customers"}, {"orders"}]


def test_a_table_does_not_wait_for_one_that_only_what_it_is_joined_with_meets() -> None:
    named = rows("orders").join(rows("customers"), join("customer"))
    made = resolved(named.join(rows("products"), join("product")))
    assert before(made) == {"orders": {"customers", "products"}}


@pytest.mark.parametrize("first", ["no", None, [], 1], ids=repr)
def test_table_first_is_a_bool(first: Any) -> None:
    told = f"join 'customer': table_first is {first!r}; expected a bool"
    with pytest.raises(ApplicationError, match=re.escape(told)):
        resolved(rows("orders").join(rows("customers"), join("customer", first=first)))


def test_nobody_waits_without_table_first() -> None:
    made = resolved(rows("orders").join(rows("customers"), join("customer", first=False)))
    assert not before(made)
    assert order(made) == [{"orders"}, {"customers"}]


def test_a_table_without_an_end_is_a_mistake() -> None:
    config = wallaroo.TCPSourceConfig("127.0.0.1", 7011, wallaroo.decoder(4, ">I")(bytes.decode))
    customers = wallaroo.source("customers", config).key_by(len)
    with pytest.raises(ApplicationError, match="no end up to which it could be read first"):
        resolved(rows("orders").join(customers, join("customer")))


def test_sources_that_wait_for_each_other_are_a_mistake() -> None:
    one, two = rows("one"), rows("two")
    with pytest.raises(ApplicationError, match=r"'one' and 'two' would have to be read before"):
        resolved(one.join(two, join("right")), two.join(one, join("left")))


def test_sources_that_are_read_in_the_order_of_time_do_not_wait_for_each_other() -> None:
    one, two = rows("one"), rows("two")

    @wallaroo.interval_join(
        name="near",
        before=wallaroo.seconds(1),
        after=wallaroo.seconds(1),
        left_time=lambda row: int(row["at"]),
        right_time=lambda row: int(row["at"]),
        delay=wallaroo.seconds(0),
    )
    def near(left: Any, right: Any) -> Any:
        return left, right

    with pytest.raises(ApplicationError, match="are read together, in the order of time"):
        resolved(one.join(two, join("right")), one.join(two, near))
