"""A topic that cannot be used beside ports: what comes and goes there does not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S, free_address, wait_until
from tests.spark.harness import Receiver, send
from wallaroo.run.background_run import BackgroundRun

APP = """
import wallaroo

def application_setup(args):
    (host, port), = wallaroo.tcp_parse_input_addrs(args)
    (to_host, to_port), = wallaroo.tcp_parse_output_addrs(args)
    brokers = args[-1]
    written = [
        wallaroo.TCPSinkConfig(to_host, to_port, wallaroo.encoder(str)),
        wallaroo.KafkaSinkConfig("totals", brokers, wallaroo.encoder(str)),
    ]
    builder = wallaroo.ApplicationBuilder("neighbours")
    port = wallaroo.TCPSourceConfig(host, port, bytes.decode)
    builder.new_pipeline("Port", port).to_sinks(written)
    topic = wallaroo.KafkaSourceConfig("orders", brokers, bytes.decode)
    builder.new_pipeline("Topic", topic).to_sinks(written)
    return builder.build()
"""


@pytest.mark.spark
def test_ports_go_on_while_the_brokers_of_a_topic_are_away(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    nobody = free_address()
    with Receiver("lines") as receiver:
        command = [
            *("run", str(tmp_path / "app.py"), "--workers", "1"),
            *("--state-dir", str(tmp_path / "state"), "--in", "127.0.0.1:0"),
            *("--out", receiver.address, "--", nobody),
        ]
        with BackgroundRun(command) as running:
            assert running.client is not None
            client = running.client

            def problems() -> list[str]:
                status = client.status()
                told = (
                    [one.problem for one in status.sources],
                    [one.problem for one in status.sinks],
                )
                assert told[0][0] is told[1][0] is None, "the port has none"
                return [problem for some in told for problem in some if problem]

            wait_until(lambda: len(problems()) == 2, "both problems", PATIENCE_S)
            for problem in problems():
                assert nobody in problem
                assert "cannot be reached" in problem
            first = [b"%d\n" % number for number in range(100)]
            send(running.sources["Port"], first)
            assert receiver.wait_for(100) == first
            assert running.stop() == 0
