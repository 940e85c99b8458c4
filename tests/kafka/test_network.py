"""The network between gateway and broker is cut, and the gateway stands still for long."""

from __future__ import annotations

import signal
import threading

import psutil

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.broker import Broker
from tests.kafka.harness import topics, wait_delivered
from wallaroo.gateway.internal_api.client import GatewayClient

TIMEOUT_MS = 2000
HASTY = f", settings={{'transaction.timeout.ms': {TIMEOUT_MS}}}"


def test_each_record_and_each_output_is_there_once_whatever_the_network_does(
    broker: Broker,
) -> None:
    source, sink = broker.topic(), broker.topic()
    with topics(source=source, sink=sink, brokers=broker.proxied) as app, app.running() as client:
        due: list[bytes] = []
        for manner in ("hole", "refused", "slow"):
            broker.proxy.manner = manner
            try:
                app.publish(500)
                records = [b"%s %d" % (manner.encode(), number) for number in range(500)]
                broker.write(source, *records)
                if manner == "refused":
                    wait_until(lambda: _both_are_told(client), "problems of both")
            finally:
                broker.proxy.manner = "open"
            due += records
            wait_delivered(client)
            assert client.wait_until_accepted("Lines", len(due), PATIENCE_S)
        assert broker.values(sink) == app.published()
        assert app.accepted() == due


def _both_are_told(client: GatewayClient) -> bool:
    status = client.status()
    problems = (status.sinks[0].problem, status.sources[0].problem)
    return all("cannot be reached" in (problem or "") for problem in problems)


def test_outputs_are_there_once_if_their_transaction_ends_while_the_gateway_stands_still(
    broker: Broker,
) -> None:
    sink = broker.topic()
    places = ("after-begin", "after-flush", "before-commit", "after-commit")
    with (
        topics(source=broker.topic(), sink=sink, brokers=broker.address, sink_options=HASTY) as app,
        app.started() as (client, gateway),
    ):
        process = psutil.Process(gateway.pid)
        for place in places:
            app.publish(50)
            wait_delivered(client)
            app.stop_at(f"kafka-sink-{place}")
            publishing = threading.Thread(target=app.publish, args=(50,))
            publishing.start()  # the gateway may stand still before it answers
            wait_until(lambda: process.status() == psutil.STATUS_STOPPED, f"a stop at {place}")
            if place in ("after-flush", "before-commit"):  # the brokers have to end it
                wait_until(lambda: not broker.open_transactions(sink), "the end of it")
            gateway.send_signal(signal.SIGCONT)
            publishing.join(PATIENCE_S)
            wait_delivered(client)
            assert broker.values(sink) == app.published(), place


def test_a_second_gateway_does_not_start_while_the_first_stands_still(broker: Broker) -> None:
    sink = broker.topic()
    with (
        topics(source=broker.topic(), sink=sink, brokers=broker.address, sink_options=HASTY) as app,
        app.started() as (client, gateway),
    ):
        app.publish(50)
        wait_delivered(client)
        gateway.send_signal(signal.SIGSTOP)
        try:
            refused = app.refused()
        finally:
            gateway.send_signal(signal.SIGCONT)
        assert "is there another gateway?" in refused
        app.publish(50)
        wait_delivered(client)
        assert broker.values(sink) == app.published()
