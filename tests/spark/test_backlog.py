"""A backlog gives what its messages would have given live, however long it takes to read."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.applications.texts import COUNTING
from tests.helpers import PATIENCE_S, wait_until
from tests.spark.harness import called
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

APP = (
    COUNTING
    + """
import json
import pathlib
import socket

HERE = pathlib.Path(__file__).parent
socket.setdefaulttimeout(0.5)  # is for connections of user code alone

class Count(Counting):
    def output(self, key, accumulator, window):
        return [key, window.start_ns, accumulator[0]]

def application_setup(args):
    rows = wallaroo.FileSourceConfig(HERE / "rows.ndjson", json.loads, "lines")
    windows = wallaroo.range_windows(wallaroo.milliseconds(10)).with_event_time(
        lambda row: row["at"]
    )
    counts = wallaroo.source("rows", rows).key_by(lambda row: row["key"]).to(windows.over(Count))
    sink = wallaroo.FileSinkConfig(
        HERE / "counts.out", wallaroo.encoder(json.dumps), framing="lines"
    )
    return wallaroo.build_application("backlog", counts.to_sink(sink))
"""
)
ROWS, STEP_NS, WINDOW_NS = 100_000, 25_000, 10_000_000


def test_messages_are_not_late_that_wait_while_the_application_is_killed(tmp_path: Path) -> None:
    choose, counts = random.Random(1), Counter[tuple[str, int]]()
    with (tmp_path / "rows.ndjson").open("w") as file:
        for number in range(ROWS):
            at, key = 10**18 + number * STEP_NS, f"k{choose.randrange(20)}"
            file.write(json.dumps({"at": at, "key": key}) + "\n")
            counts[key, at - at % WINDOW_NS] += 1
    (tmp_path / "files.py").write_text(APP)
    command = ["run", str(tmp_path / "files.py"), "--no-ui", "--until-done"]
    command += ["--state-dir", str(tmp_path / "state")]
    out = tmp_path / "counts.out"
    with BackgroundRun(command) as running:
        wait_until(lambda: out.exists() and out.stat().st_size, "outputs", PATIENCE_S)
        running.process.kill()
        running.process.wait()
    assert len(out.read_text().splitlines()) < len(counts), "it was to be in the middle"
    done = called(*command)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(found) == sorted([key, start, count] for (key, start), count in counts.items())
