"""A topic that cannot be used beside ports: what comes and goes there does not notice."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import PATIENCE_S, free_address, wait_until
from tests.kafka.harness import topics
from tests.spark.harness import Receiver, send

APP = """
import wallaroo

@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()

def application_setup(args):
    brokers = {brokers!r}
    builder = wallaroo.ApplicationBuilder("neighbours")
    port = wallaroo.TCPSourceConfig("127.0.0.1", "0", decode)
    receiver = wallaroo.TCPSinkConfig("127.0.0.1", {port!r}, wallaroo.encoder(str))
    builder.new_pipeline("Port", port).to_sink(receiver)
    topic = wallaroo.KafkaSourceConfig("orders", brokers, decode)
    builder.new_pipeline("Topic", topic).to_sink(
        wallaroo.KafkaSinkConfig("totals", brokers, wallaroo.encoder(str))
    )
    return builder.build()
"""


def test_ports_go_on_while_the_brokers_of_a_topic_are_away() -> None:
    nobody = free_address()
    with Receiver("raw") as receiver, topics(source="", sink="", brokers=nobody) as app:
        port = receiver.address.rpartition(":")[2]
        Path(app.location.removeprefix("unix:")).with_name("app.py").write_text(
            APP.format(brokers=nobody, port=port)
        )
        with app.running() as client:

            def problems() -> list[str]:
                status = client.status()
                assert status.sources[0].problem is status.sinks[0].problem is None
                return [one.problem for one in status.sources[1:] if one.problem] + [
                    one.problem for one in status.sinks[1:] if one.problem
                ]

            wait_until(lambda: len(problems()) == 2, "both problems", PATIENCE_S)
            for problem in problems():
                assert nobody in problem
                assert "cannot be reached" in problem
            send(client.status().sources[0].where, [b"one", b"two"])
            assert client.wait_until_accepted("Port", 2, PATIENCE_S)
            assert app.accepted() == [b"one", b"two"]
            app.publish_these(b"three")
            wait_until(lambda: b"".join(receiver.messages) == b"three", "the output")
            assert len(problems()) == 2, "they still are what they were"
