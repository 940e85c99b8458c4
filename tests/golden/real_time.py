"""Golden state directories of the real-time engine, in `format-N/real-time`.

The entities in them are those of the same application in batches, so there is one export of both.
"""

from __future__ import annotations

from pathlib import Path

from tests.dataflow.harness import cut
from tests.golden import PRESENT, Sent
from tests.helpers import wait_until
from tests.spark.harness import PATIENCE_S, send
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application
from wallaroo.model.loader import ApplicationRef
from wallaroo.run.background_run import BackgroundRun

DIRECTORIES = PRESENT / "real-time"
NAMES = ("plain", "states", "classes", "keys")
"""The applications whose entities do not depend on the time of the run."""
Outputs = dict[str, list[bytes]]
"""By sink."""


def run(reference: ApplicationRef, sent: Sent, directory: Path) -> Outputs:
    """Run an application over *sent*; all outputs ever made in *directory*: nobody takes them."""
    command = ["run", reference.app, "--engine", "real-time", "--workers", "1", "--no-ui"]
    options = ["--state-dir", str(directory), "--drain-timeout", "0.1"]
    with BackgroundRun([*command, *options, "--", *reference.args]) as running:
        client = running.client
        assert client is not None

        def accepted() -> int:
            return sum(source.accepted for source in client.status().sources)

        due = accepted() + len(sent)
        for source, payload in sent:
            send(running.sources[source], [payload])
        wait_until(lambda: accepted() == due, "the messages", PATIENCE_S)
        wait_until(lambda: not client.status().backlog, "their outputs", PATIENCE_S)
        running.stop()
    return _outputs(reference.load(), directory)


def _outputs(application: Application, directory: Path) -> Outputs:
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    found: Outputs = {}
    for number, sink in enumerate(application.sinks):
        position, made = 0, list[bytes]()
        while (delivery := outbox.next(number, position, 0.0)) is not None:
            position = delivery.position
            made += cut(delivery.outputs.lengths, delivery.outputs.data)
        found[sink.name] = made
    outbox.close()
    return found
