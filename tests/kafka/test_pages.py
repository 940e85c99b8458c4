"""The applications of docs/kafka.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.helpers import ROOT, wait_until
from tests.kafka.broker import Broker
from tests.spark.harness import PATIENCE_S
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import load, simulate

PAGE = (ROOT / "docs" / "kafka.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
RATINGS = [b"Alien 5", b"Heat 3", b"Alien 9", b"Alien 4"]
AVERAGES = [
    ("Alien", "Alien: 5.00 of 1\n"),
    ("Alien", "Alien: 4.50 of 2\n"),
    ("Heat", "Heat: 3.00 of 1\n"),
]


def parts(page: str) -> list[str]:
    """The parts of `application.py` on *page*."""
    return re.findall(r'```python title="application.py"\n(.*?)```', page, re.DOTALL)


def test_the_first_application_counts_orders(tmp_path: Path) -> None:
    application, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shop.py").write_text(application)
    orders = [("Orders", order) for order in (b"nut", b"bolt", b"nut")]
    result = simulate(load(tmp_path / "shop.py"), orders)
    assert not result.set_aside
    assert result.outputs == [b"1", b"1", b"2"]


@pytest.mark.spark
def test_the_tutorials_application_reads_and_writes_topics(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *before, setup = parts(TUTORIAL)
    assert "def application_setup" in setup
    (tmp_path / "application.py").write_text("\n\n".join([*before, *parts(PAGE)]))
    (command,) = re.findall(r"```console\n\$ (wallaroo run .*?)```", PAGE, re.DOTALL)
    topics = {"ratings": broker.topic(), "averages": broker.topic(2)}
    _, *words = shlex.split(command.replace("127.0.0.1:9092", broker.address))
    given = [topics.get(word, word) for word in words]
    assert set(topics.values()) < set(given)
    monkeypatch.chdir(tmp_path)
    broker.write(topics["ratings"], *RATINGS)
    with BackgroundRun([given[0], "--no-ui", *given[1:]]) as running:
        wait_until(
            lambda: len(broker.records(topics["averages"])) == len(AVERAGES), "them", PATIENCE_S
        )
        assert running.stop() == 0
    written = [(r.key().decode(), r.value().decode()) for r in broker.records(topics["averages"])]
    assert sorted(written, key=lambda pair: pair[0]) == AVERAGES
