"""A gateway of an application with topics, which tests kill and start again, and its topics."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.gateway.harness import U32, opened, outputs
from tests.gateway.stand_in import StandIn, journal_of
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.cli.main import main
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.reading import Reading
from wallaroo.gateway.store import Store
from wallaroo.wire.records import Block, FailedMessage, Tally

APP = """
import re

import wallaroo

def application_setup(args):
    source = wallaroo.KafkaSourceConfig({source!r}, {brokers!r}, bytes.decode{source_options})
    sink = wallaroo.KafkaSinkConfig(
        {sink!r},
        {brokers!r},
        wallaroo.encoder(str),
        keep_key=False,  # so the journal has values alone
        keep_timestamp=False{sink_options},
    )
    builder = wallaroo.ApplicationBuilder("topics")
    builder.new_pipeline("Lines", source).to_sink(sink)
    return builder.build({build_options})
"""


class Topics:
    """An application that reads a topic or several and writes another, and its gateway."""

    def __init__(self, directory: Path, **texts: Any) -> None:
        """*texts* are what `APP` needs; options begin with a comma."""
        self._directory, self.texts = directory, texts
        self.describe(**texts)
        self.faults = directory / "faults"
        self.faults.mkdir()
        self.location = f"unix:{directory}/gateway.sock"
        self._published = 0
        self._engine = StandIn(self.location)
        self.log = directory / "log.txt"
        self.options: tuple[str, ...] = ()
        """Further options of the gateway."""

    def describe(self, **texts: Any) -> None:
        """Write the application."""
        options = {"source_options": "", "sink_options": "", "build_options": ""}
        (self._directory / "app.py").write_text(APP.format(**{**options, **texts}))

    @property
    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "wallaroo", "gateway", str(self._directory / "app.py")),
            *("--child", "--state-dir", str(self._directory / "state"), "--listen", self.location),
            *self.options,
        ]

    def refused(self) -> str:
        """What a gateway that cannot start tells."""
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as gateway:
            assert gateway.stdout is not None
            assert gateway.stderr is not None
            told = gateway.stdout.read() + gateway.stderr.read()
            assert gateway.wait(PATIENCE_S) != 0
        return told.decode()

    @contextlib.contextmanager
    def started(
        self, environment: Mapping[str, str] | None = None
    ) -> Iterator[tuple[GatewayClient, subprocess.Popen[bytes]]]:
        """The gateway, which is killed at the end."""
        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {}), "WALLAROO_FAULTS": str(self.faults)},
            ) as gateway,
        ):
            assert gateway.stdout is not None
            assert b"sources" in gateway.stdout.readline(), self.log.read_text()
            try:
                yield GatewayClient(self.location), gateway
            finally:
                gateway.kill()
                self._engine.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[GatewayClient]:
        """The same, without its process."""
        with self.started() as (client, _):
            yield client

    def publish(self, count: int, *, patient: bool = True) -> None:
        """Publish the next *count* outputs, which are numbers."""
        first = self._published
        self._published += count
        packed = [b"\0%d" % number for number in range(first, first + count)]
        self.publish_these(*packed, patient=patient)

    def publish_until_killed(self, count: int) -> None:
        """The same with a gateway that a fault in the sink kills, perhaps before it answers."""
        with contextlib.suppress(RuntimeFailure):
            self.publish(count, patient=False)

    def publish_these(self, *packed: bytes, patient: bool = True) -> None:
        """Publish packed records."""
        self._engine.publish(outputs(*packed), patient=patient)

    def without_ticks(self) -> None:
        """Let only messages be chunks, so that the next one has the messages that come next."""
        self._engine = StandIn(self.location, ticks=False)

    def fail_last(self, count: int = 1, *, patient: bool = True) -> None:
        """Let the last messages that were accepted fail, as if a step had raised."""
        last = self._journal()[-1]
        end, tally = last.end, Tally()
        for arrival in range(end - count, end):
            failed = FailedMessage("Lines", "step", "app.py:1", "ValueError: no", "", None, arrival)
            tally.add_set_aside(failed)
        self._engine.publish(tally=tally, patient=patient)

    def fail_last_until_killed(self) -> None:
        """The same with a gateway that a fault kills, perhaps before it answers."""
        with contextlib.suppress(RuntimeFailure):
            self.fail_last(patient=False)

    def _journal(self) -> list[Block]:
        return journal_of(self._directory / "state")

    def publish_these_and_die(self, place: str, *packed: bytes) -> None:
        """Publish packed records with a gateway of its own, which is killed at *place*."""
        with self.started() as (client, gateway):
            wait_delivered(client)
            (self.faults / place).touch()
            with contextlib.suppress(RuntimeFailure):
                self.publish_these(*packed, patient=False)
            assert gateway.wait(PATIENCE_S) != 0

    def accepted(self) -> list[bytes]:
        """The payloads in the journal, in order."""
        return [payload for chunk in self._journal() for payload in U32.split(chunk.data)]

    def position(self) -> bytes | None:
        """The source's position on disk; None if there is none."""
        return Reading(self._directory / "state" / LOG).journal.reached("Lines")

    def offset(self, partition: int) -> int | None:
        """Offset of the next record of *partition*, on disk; None if there is none."""
        stored = self.position()
        at = Partition(self.texts["source"], partition)
        return None if stored is None else Positions.decoded(stored).offsets.get(at)

    def delivered(self) -> int:
        """How many outputs are delivered, on disk."""
        return Reading(self._directory / "state" / LOG).outbox.delivered_to(0)

    def positions(self, *arguments: str, answer: str | None = None) -> Result:
        """`wallaroo kafka positions`, with an *answer* to what it asks."""
        app, state = str(self._directory / "app.py"), str(self._directory / "state")
        command = ["kafka", "positions", app, "--state-dir", state, *arguments]
        return CliRunner().invoke(main, command, answer)

    def group_of_sink(self, name: str = "Lines") -> str:
        """The group that has the number of the sink *name*."""
        outbox = Reading(self._directory / "state" / LOG).outbox
        return f"wallaroo-topics-{outbox.identity}-{name}"

    def move_position(self, partition: int, offset: int) -> None:
        """Let the source have read a partition up to *offset*, while the gateway is stopped."""
        with self._opened() as store:
            positions = Positions.decoded(store.journal.reached("Lines") or b"")
            at = Partition(self.texts["source"], partition)
            moved = replace(positions, offsets={**positions.offsets, at: offset})
            store.move(0, Reached("Lines", moved.encoded()))

    def begin(self) -> None:
        """Make the state directory, as a gateway whose source is not read yet does."""
        (self._directory / "state").mkdir()
        with self._opened():
            pass

    def _opened(self) -> AbstractContextManager[Store]:
        names = ("Lines",)
        return opened(self._directory / "state", application="topics", sources=names, sinks=names)

    def stop_at(self, place: str) -> None:
        """Let the gateway stand still at the next passing of *place*."""
        (self.faults / place).write_text(f"0 0 {int(signal.SIGSTOP)}")

    def published(self) -> list[bytes]:
        """All outputs that were published."""
        return [b"%d" % number for number in range(self._published)]


@contextlib.contextmanager
def topics(**texts: Any) -> Iterator[Topics]:
    """An application in a directory of its own, short as the name of a Unix socket must be."""
    with tempfile.TemporaryDirectory() as directory:
        yield Topics(Path(directory), **texts)


def wait_delivered(client: GatewayClient) -> None:
    """Wait until all published outputs are delivered."""
    wait_until(lambda: not client.status().undelivered, "the delivery of everything", PATIENCE_S)


def problem_of_source(client: GatewayClient, containing: str = "") -> str:
    """What the source's problem is, once there is one that has the text *containing*."""
    return wait_for_problem(lambda: client.status().sources[0].problem, containing)


def problem_of_sink(client: GatewayClient, containing: str, index: int = 0) -> str:
    """The same of a sink."""
    return wait_for_problem(lambda: client.status().sinks[index].problem, containing)


def wait_for_problem(problem: Callable[[], str | None], containing: str) -> str:
    """What *problem* returns, once that has the text *containing*: others may come before it."""

    def found() -> str:
        text = problem() or ""
        return text if containing in text else ""

    # librdkafka gives up a request that got lost after 60 s, and a partition that does not move may
    # be checked only after two minutes
    try:
        return wait_until(found, f"a problem with {containing!r}", 3 * PATIENCE_S)
    except AssertionError as error:
        error.add_note(f"the problem is {problem()!r}")
        raise
