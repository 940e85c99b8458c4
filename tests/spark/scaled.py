"""An application whose number of executors changes while messages arrive: a program for one test.

Prints, as JSON, the longest time without a publication for each number of executors that it was
given, how often the query was started, the outputs by key, and which processes have reported their
processor time.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from tests.engine.realtime.harness import GatewaySide, gateway_side, submit, wait_until_processed
from tests.helpers import KILLING
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.engine import launch
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.stored import StateLayout
from wallaroo.loading.loader import ApplicationRef
from wallaroo.wire.chunk_messages import News

PARTITIONS, KEYS = 4, 10
SCALES = (1, 3)
"""Numbers of executors after the first, which is three."""
_PATIENCE_S = 300.0


class Scaled:
    """The running application, its supervision, and its input."""

    def __init__(self, directory: Path, gateway: GatewaySide, reference: ApplicationRef) -> None:
        self._gateway = gateway
        self._application = reference.load()
        self.published: list[float] = []
        """When something was published."""
        self.timed: set[int] = set()
        """Processes that have reported their processor time."""
        self.sent = 0
        self._ends = threading.Event()
        layout = StateLayout("Poison", PARTITIONS, 8 * PARTITIONS, directory / "checkpoint")
        settings = EngineSettings(
            reference,
            "local-cluster[3,5,1024]",
            workers=3,
            spark={"spark.decommission.enabled": "true"},
            everywhere=True,
        )
        launched = launch(settings, layout, directory)
        program = Program(self._application, layout.buckets)
        self.running = RunningEngine(
            settings,
            program,
            layout,
            gateway.claim,
            lambda: str(gateway.path),
            launched,
            directory,
            self._on_published,
        )
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._supervise, self._send)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def moves(self) -> int:
        """How often the query was started."""
        run = self._gateway.server._run
        return 0 if run is None else run.order[1]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def wait_for_output(self) -> None:
        """Wait until the driver has learned of a publication."""
        known = len(self.published)
        self.wait_for(lambda: len(self.published) > known, "an output")

    def finish(self) -> dict[str, list[str]]:
        """The outputs of all that was sent, by key."""
        self._ends.set()
        self._threads[1].join()
        wait_until_processed(self._gateway, self.sent)
        self.running.finish_epoch()
        self._threads[0].join()
        self.running.stop()
        found = defaultdict(list)
        for outputs in self._gateway.outputs(self._application).values():
            for output in outputs:
                found[output[4:5].decode()].append(output[5:].decode())
        return found

    def _on_published(self, news: News) -> None:
        self.published.append(time.monotonic())
        self.timed |= {role for _, role in news.tally.metrics.processors}

    def _supervise(self) -> None:
        while not self._ends.wait(0.1) or self._gateway.journal.backlog:
            assert self.running.failure() is None

    def _send(self) -> None:
        for number in itertools.count():
            submit(self._gateway, self._application, [("in", b"%d" % (number % KEYS))])
            self.sent += 1
            if self._ends.wait(0.02):
                return


def main(directory: Path) -> None:
    reference = ApplicationRef(str(KILLING), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))
    gaps = []
    application = reference.load()
    with gateway_side(directory, application, wiring=application.wiring) as gateway:
        scaled = Scaled(directory, gateway, reference)
        scaled.wait_for(lambda: scaled.running.workers() == (3, 3), "three executors")
        scaled.wait_for_output()
        for number in SCALES:
            began, moves = len(scaled.published), scaled.moves
            scaled.running.scale(number)
            scaled.wait_for(
                lambda number=number: scaled.running.workers() == (number, number),  # type: ignore[misc]
                f"{number} executors",
            )
            scaled.wait_for(lambda moves=moves: scaled.moves > moves, "a move")  # type: ignore[misc]
            scaled.wait_for_output()
            times = scaled.published[began - 1 :]
            gaps.append(max(after - before for before, after in itertools.pairwise(times)))
        starts = scaled.moves
        outputs = scaled.finish()
    told = {"gaps": gaps, "starts": starts, "sent": scaled.sent, "outputs": outputs}
    told["timed"] = sorted(scaled.timed)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
