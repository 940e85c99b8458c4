"""The figures of a running application are those that are known, also after kills."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers import wait_until
from tests.spark.harness import APPS, Receiver, frame, kill_gateway, run, send
from wallaroo.cli.main import main
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
BAD = b"\xff\xfe"
"""What the decoder, which wants UTF-8, raises on."""


class Scrape:
    """What `/metrics` told once."""

    def __init__(self, running: BackgroundRun) -> None:
        url = running.wait_for_event("ready", 0)["dashboard"] + "metrics"
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
        families = list(text_string_to_metric_families(text))
        assert all(family.documentation for family in families)
        self.samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The one sample of *name* that has these *labels*."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0]


def check(scrape: Scrape, messages: int, bad: int) -> None:
    """Hold *scrape* against *messages* of two words, with w and x, and *bad* ones."""
    words, step = 2 * messages, "wallaroo_step_messages_total"
    assert scrape.value("wallaroo_source_messages_total", source=SOURCE) == messages + bad
    assert scrape.value("wallaroo_latency_seconds_count", pipeline=SOURCE) == messages + bad
    assert scrape.value("wallaroo_latency_seconds_bucket", le="+Inf") == messages + bad
    assert scrape.value(step, pipeline=SOURCE, step="decoder") == messages + bad
    assert scrape.value("wallaroo_step_results_total", step="decoder") == messages
    assert scrape.value("wallaroo_set_aside_messages_total", step="decoder") == bad
    assert scrape.value(step, step="split into words") == messages
    assert scrape.value("wallaroo_step_results_total", step="split into words") == words
    assert scrape.value(step, step="Count Word") == words
    assert scrape.value(step, step="encoder") == words
    assert scrape.value("wallaroo_set_aside_messages_total", step="Count Word") == 0
    assert scrape.value("wallaroo_sink_messages_total", sink=SOURCE) == words
    assert scrape.value("wallaroo_sink_waiting_messages", sink=SOURCE) == 0
    assert scrape.value("wallaroo_backlog_messages", source=SOURCE) == 0
    assert scrape.value("wallaroo_backlog_seconds") == 0
    assert scrape.value("wallaroo_state_entities") == 2
    assert (
        0
        < scrape.value("wallaroo_step_duration_seconds_count", step="split into words")
        <= messages
    )
    assert 0 < scrape.value("wallaroo_step_duration_seconds_count", step="Count Word") <= words
    assert scrape.value("wallaroo_step_duration_seconds_sum", step="Count Word") > 0
    assert scrape.value("wallaroo_workers_alive") == 2
    assert scrape.value("wallaroo_query_restarts_total") == 1  # a query ends with its gateway


def test_figures_are_exact_also_after_kills(tmp_path: Path) -> None:
    payloads = [b"w%d x" % (n % 400) for n in range(20_000)]
    state = tmp_path / "state"
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, state) as running:
            host, port = running.sources[SOURCE].rsplit(":", 1)
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"".join(map(frame, [*payloads[:9_000], BAD])))
                receiver.wait_for(1000)
                connection.sendall(b"".join(map(frame, payloads[9_000:15_000])))
                running.wait_until_accepted(SOURCE, 15_001)
                running.process.send_signal(signal.SIGKILL)
                running.process.wait()
        with run(APPS / "word_count", receiver, state) as running:
            kill_gateway(running)
            running.wait_for_event("gateway restarted", 60.0)
            send(running.sources[SOURCE], [*payloads[15_000:], BAD])
            running.wait_until_accepted(SOURCE, 20_002)
            running.wait_until_processed()
            check(Scrape(running), 20_000, 2)
            assert running.stop() == 0


def test_what_is_published_is_told_by_its_size_and_its_phases(tmp_path: Path) -> None:
    size, duration = "wallaroo_publication_messages", "wallaroo_publication_seconds"
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, tmp_path) as running:
        send(running.sources[SOURCE], [b"a b"] * 500)
        running.wait_until_accepted(SOURCE, 500)
        running.wait_until_processed()

        def told(metric: str) -> float:
            return Scrape(running).value(metric)

        # the driver and Spark tell a moment after outputs are delivered
        wait_until(lambda: told(f"{size}_sum") == 500, "all sizes")
        count = told(f"{size}_count")
        wait_until(
            lambda: Scrape(running).value(f"{duration}_count", phase="run") == count, "all phases"
        )
        scrape = Scrape(running)
        for phase in ("run", "commit"):
            assert scrape.value(f"{duration}_count", phase=phase) == count
        assert scrape.value(f"{duration}_sum", phase="run") > 0
        assert told("wallaroo_epoch_end_seconds_count") >= 0  # one may have ended meanwhile
        assert told("wallaroo_epoch_age_seconds") > 0
        url = running.wait_for_event("ready", 0)["dashboard"]
        shown = CliRunner().invoke(main, ["top", url, "--once"])
        assert shown.exit_code == 0
        assert shown.output.startswith("Word Count Application  in ")
        assert "workers 2/2" in shown.output
        assert running.stop() == 0
