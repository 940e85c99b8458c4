"""Word Count from topic and port to a topic, while the gateway and brokers are killed."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.helpers import ROOT, wait_until
from tests.kafka.broker import Cluster
from tests.spark.harness import PATIENCE_S, send
from wallaroo.run.background_run import BackgroundRun

APP = """
import sys

sys.path.insert(0, {word_count!r})

import application as word_count
import wallaroo

def with_key(counted):
    return word_count.encoder(counted), counted[0]

def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    sink = wallaroo.DefaultKafkaSinkCLIParser(wallaroo.encoder(with_key))
    builder = wallaroo.ApplicationBuilder("Word Count")
    sources = {{
        "Topic": wallaroo.DefaultKafkaSourceCLIParser(word_count.decoder),
        "Port": wallaroo.TCPSourceConfig(host, port, word_count.decoder),
    }}
    for name, source in sources.items():
        builder.new_pipeline(name, source).to_parallel(word_count.split)
        builder.to_state_partition(
            word_count.count_word, word_count.WordTotals, "totals", word_count.first_letter
        )
        builder.to_sink(sink)
    return builder.build()
"""
WORDS = ("apple", "bear", "cake", "apple", "deer", "élan", "42")
FAULTS = ("kafka-source-after-submit", "kafka-sink-after-flush", "kafka-sink-after-commit")


@pytest.mark.spark
def test_each_word_counts_once_whatever_is_killed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, counts = cluster.topic(2), cluster.topic(3)
    app, faults = tmp_path / "app.py", tmp_path / "faults"
    app.write_text(APP.format(word_count=str(ROOT / "apps" / "word_count")))
    faults.mkdir()
    monkeypatch.setenv("WALLAROO_FAULTS", str(faults))
    command = [
        *("run", str(app), "--workers", "2", "--state-dir", str(tmp_path / "state")),
        *("--in", "127.0.0.1:0", "--", "--kafka_source_topic", lines),
        *("--kafka_source_brokers", cluster.address),
        *("--kafka_sink_topic", counts, "--kafka_sink_brokers", cluster.address),
    ]
    sent: Counter[str] = Counter()

    def write() -> None:
        text = [" ".join(WORDS).encode()] * 20
        for partition in (0, 1):
            cluster.write(lines, *text, partition=partition)
        for word in WORDS:
            sent[word] += 2 * len(text)

    def written() -> int:
        return len(cluster.records(counts))

    with BackgroundRun(command) as running:
        assert running.sources["Topic"] == f"topic {lines} at {cluster.address}"
        write()
        send(running.sources["Port"], [b"apple pie"] * 5)
        sent.update({"apple": 5, "pie": 5})
        wait_until(lambda: written() == sent.total(), "the first counts", PATIENCE_S)
        for place in FAULTS:
            (faults / place).touch()
            write()
            wait_until(lambda at=place: not (faults / at).exists(), place, PATIENCE_S)  # type: ignore[misc]
        wait_until(lambda: written() == sent.total(), "the counts after kills", PATIENCE_S)
        leader = cluster.leader(counts)
        cluster.nodes[leader].stop(signal.SIGKILL)
        write()
        wait_until(lambda: written() == sent.total(), "the counts without a broker", PATIENCE_S)
        assert cluster.leader(counts) != leader
        cluster.stop(signal.SIGKILL)
        cluster.start()
        write()
        wait_until(lambda: written() == sent.total(), "the counts after all brokers", PATIENCE_S)
        cluster.elect_preferred(lines, counts)
        write()
        wait_until(lambda: written() == sent.total(), "the counts with other leaders", PATIENCE_S)
        assert cluster.leader(counts) == leader
        assert running.stop() == 0
    found: dict[str, list[int]] = defaultdict(list)
    for record in cluster.records(counts):
        word, count = record.value().decode().split(" => ")
        assert record.key().decode() == word
        found[word].append(int(count))
    assert found == {word: list(range(1, total + 1)) for word, total in sent.items()}
