"""Brokers with ACLs: those of docs/kafka.md suffice, and one that is missing is named."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import PATIENCE_S, ROOT, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import Topics, problem_of_sink, problem_of_source, topics, wait_delivered
from tests.kafka.security import PASSWORD, settings
from wallaroo.gateway.internal_api.client import GatewayClient

SOURCE, LAG, SINK, TRANSACTIONS = (
    "the source",
    "the lag of the source, in tools",
    "the sink",
    "the sink's transactions",
)
_ROW = re.compile(r"\| `([A-Z]+)` \| ([\w ]+?)s?( that begin with)? `(.+)` \| (.+) \|")


class Acl(NamedTuple):
    """A row of the table."""

    operation: str
    kind: str
    prefix: bool
    resource: str
    purpose: str

    @property
    def missing(self) -> str:
        """What is told without it, about the application of the tests."""
        return f"no {self.operation} on {self.kind} {self.resource}"


def table() -> list[Acl]:
    """The table of the page."""
    page = (ROOT / "docs" / "kafka.md").read_text()
    rows = _ROW.findall(page.partition("\n## Permissions\n")[2].partition("\n## ")[0])
    return [Acl(operation, kind, bool(prefix), *rest) for operation, kind, prefix, *rest in rows]


ACLS = table()
OF_WRITER = [acl for acl in ACLS if acl.purpose in {SINK, TRANSACTIONS}]


class Users:
    """An application that reads as one user and writes as another."""

    def __init__(self, broker: Broker, directory: Path, *, transactions: bool = True) -> None:
        self.broker, self._directory = broker, directory
        self.source, self.sink = broker.topic(), broker.topic()
        self._names = {"reader": broker.user(PASSWORD), "writer": broker.user(PASSWORD)}
        self._transactions = transactions

    def allow(self, *acls: Acl) -> None:
        """Grant *acls* of the page, for the application of the tests."""
        for acl in acls:
            user = self._names["writer" if acl.purpose in {SINK, TRANSACTIONS} else "reader"]
            own = self.own(acl)
            kind = own.kind.upper().replace(" ", "_")
            self.broker.allow(user, own.operation, kind, own.resource, prefix=own.prefix)

    def own(self, acl: Acl) -> Acl:
        """What *acl* of the page is for the application of the tests."""
        names = {"orders": self.source, "totals": self.sink}
        of_app = acl.resource.replace("Shop", "topics").replace("Orders", "Lines")
        return acl._replace(resource=names.get(acl.resource, of_app))

    @contextlib.contextmanager
    def running(self) -> Iterator[tuple[Topics, GatewayClient]]:
        """The application, which has one record to read and three outputs to write."""
        options = dict[str, str]()
        for role, name in self._names.items():
            file = self._directory / f"{role}.properties"
            settings(self.broker.authority, file, sasl_username=name)
            options[role] = f", settings_file={str(file)!r}"
        with topics(
            source=self.source,
            sink=self.sink,
            brokers=self.broker.secure,
            source_options=options["reader"],
            sink_options=f"{options['writer']}, transactions={self._transactions}",
        ) as app:
            self.broker.write(self.source, b"record")
            with app.running() as client:
                app.publish(3)
                yield app, client


@pytest.fixture
def users(broker: Broker, tmp_path: Path) -> Users:
    return Users(broker, tmp_path)


def reads(app: Topics, client: GatewayClient) -> None:
    assert client.wait_until_accepted("Lines", 1, PATIENCE_S)
    assert app.accepted() == [b"record"]


def taken_for_unreachable(app: Topics) -> list[str]:
    """What the log says of brokers that cannot be reached, though no connection to them broke."""
    lines = app.log.read_text().splitlines()
    return [line for line in lines if "cannot be reached" in line and "transport fail" not in line]


def test_the_table_has_all_purposes() -> None:
    assert {acl.purpose for acl in ACLS} == {SOURCE, LAG, SINK, TRANSACTIONS}
    assert len(ACLS) == 6


def test_the_acls_of_the_page_suffice(users: Users) -> None:
    users.allow(*ACLS)
    with users.running() as (app, client):
        reads(app, client)
        wait_delivered(client)
        assert users.broker.values(users.sink) == app.published()
        group = "wallaroo-topics-Lines"
        wait_until(lambda: users.broker.committed(group, users.source) == 1, "the commit")
        assert "no positions" not in app.log.read_text()


@pytest.mark.parametrize("may_describe", [False, True])
def test_without_transactions_a_sink_requires_only_its_topic(
    broker: Broker, tmp_path: Path, may_describe: bool
) -> None:
    users = Users(broker, tmp_path, transactions=False)
    (acl,) = [acl for acl in ACLS if acl.purpose == SINK]
    if may_describe:
        users.allow(acl._replace(operation="DESCRIBE"))
    with users.running() as (app, client):
        problem_of_sink(client, users.own(acl).missing)
        users.allow(acl)
        wait_delivered(client)
        assert broker.values(users.sink) == app.published()


@pytest.mark.parametrize("acl", OF_WRITER, ids=lambda acl: f"{acl.operation} {acl.kind}")
def test_a_sink_names_what_it_may_not_do_and_goes_on_once_it_may(users: Users, acl: Acl) -> None:
    users.allow(*(other for other in ACLS if other != acl))
    with users.running() as (app, client):
        problem_of_sink(client, users.own(acl).missing)
        assert taken_for_unreachable(app) == []
        reads(app, client)
        users.allow(acl)
        wait_delivered(client)
        assert users.broker.values(users.sink) == app.published()


def test_a_source_names_what_it_may_not_read_and_goes_on_once_it_may(users: Users) -> None:
    (acl,) = [acl for acl in ACLS if acl.purpose == SOURCE]
    users.allow(*(other for other in ACLS if other != acl))
    with users.running() as (app, client):
        problem_of_source(client, users.own(acl).missing)
        assert taken_for_unreachable(app) == []
        users.allow(acl)
        reads(app, client)


@pytest.mark.parametrize("may_describe", [False, True])
def test_a_source_is_read_without_its_group_which_a_warning_names(
    users: Users, may_describe: bool
) -> None:
    (acl,) = [acl for acl in ACLS if acl.purpose == LAG]
    users.allow(*(other for other in ACLS if other != acl))
    if may_describe:
        users.allow(acl._replace(operation="DESCRIBE"))
    with users.running() as (app, client):
        reads(app, client)
        warned = users.own(acl).missing
        wait_until(lambda: warned in app.log.read_text(), "the warning", PATIENCE_S)
        users.broker.write(users.source, b"another")
        assert client.wait_until_accepted("Lines", 2, PATIENCE_S)
        assert client.status().sources[0].problem is None
        assert app.log.read_text().count("no READ on group") == 1


def test_a_topic_is_created_by_a_user_who_may(broker: Broker, tmp_path: Path) -> None:
    user = broker.user(PASSWORD)
    topic = f"topic-of-{user}"
    broker.allow(user, "READ", "TOPIC", topic)
    texts = {"source": topic, "sink": broker.topic(), "brokers": broker.secure}
    environment = settings(broker.authority, tmp_path / "user.properties", sasl_username=user)
    with (
        topics(**texts, source_options=", create=wallaroo.TopicSettings()") as app,
        app.started(environment) as (client, _),
    ):
        problem_of_source(client, f"no CREATE on topic {topic}")
        broker.allow(user, "CREATE", "TOPIC", topic)
        wait_until(lambda: topic in broker.admin.list_topics().topics, "the topic")
