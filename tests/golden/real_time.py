"""Golden state directories of the real-time engine, in `format-N/real-time`.

The entities in them are those of the same application in batches, so there is one export of both;
those that depend on the time of the run have exports of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.dataflow.harness import cut
from tests.golden import PRESENT, Sent
from tests.helpers import wait_until
from tests.spark.harness import PATIENCE_S, send
from wallaroo.engine.realtime.settings import SETTINGS
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application
from wallaroo.model.loader import ApplicationRef
from wallaroo.run.background_run import BackgroundRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORIES = PRESENT / "real-time"
TIMED = ("joins", "timers")
"""The applications whose entities depend on the time of the run."""
NAMES = ("plain", "states", "classes", "keys", *TIMED)
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

        before = accepted()
        for number, (source, payload) in enumerate(sent, 1):
            send(running.sources[source], [payload])  # not the next one before: joins tell sources
            due = before + number
            wait_until(lambda due=due: accepted() == due, "the message", PATIENCE_S)  # type: ignore[misc]
        wait_until(lambda: not client.status().backlog, "their outputs", PATIENCE_S)
        running.stop()
    return _outputs(reference.load(), directory)


def session_of(session: SparkSession) -> SparkSession:
    """A session that reads the state of the engine."""
    own = session.newSession()
    for setting, value in SETTINGS.items():
        if setting.startswith("spark.sql."):
            own.conf.set(setting, value)
    return own


def exports(name: str) -> Path:
    """Where the exports of the application *name* are."""
    return DIRECTORIES if name in TIMED else PRESENT


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
