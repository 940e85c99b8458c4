"""Several files as sources of one window and one join: as if their lines had come live."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd  # type: ignore[import-untyped]
import pytest

from tests.applications.texts import COUNTING
from tests.spark.harness import called

pytestmark = pytest.mark.spark

APP = (
    COUNTING
    + """
import json

def time_of(reading):
    return reading["at"] * 10**9

def sensor(reading):
    return reading["sensor"]

class Count(Counting):
    def output(self, key, accumulator, window):
        return [key, window.start_ns // 10**9, accumulator[0]]

@wallaroo.asof_join(
    name="value", left_time=time_of, right_time=time_of,
    tolerance=wallaroo.hours(1), delay=wallaroo.seconds(0),
)
def value(left, right):
    return [left["id"], right["id"]]

def application_setup(args):
    one, two, three, four = (
        wallaroo.source(
            name, wallaroo.FileSourceConfig(f"{name}.ndjson", json.loads, "lines", time=time_of)
        ).key_by(sensor)
        for name in ("one", "two", "three", "four")
    )
    rows = wallaroo.CSVSourceConfig(
        "csv-*.csv", lambda row: row | {"at": int(row["at"])}, time=time_of
    )
    csv = wallaroo.source("csv", rows).key_by(sensor)
    windows = wallaroo.range_windows(wallaroo.seconds(10)).with_event_time(time_of).over(Count)
    def sink(name):
        return wallaroo.FileSinkConfig(f"{name}.out", wallaroo.encoder(json.dumps), framing="lines")
    return wallaroo.build_application(
        "files",
        one.merge(two).merge(csv).to(windows).to_sink(sink("counts")),
        three.join(four, value).to_sink(sink("values")),
    )
"""
)


class Line(NamedTuple):
    """A line of a file."""

    id: int
    at: int
    """Seconds."""
    sensor: str


def test_several_files_count_as_if_their_lines_had_come_live(tmp_path: Path) -> None:
    choose, begin = random.Random(1), 1_600_000_000
    names = ["one", "two", "csv-1", "csv-2", "three", "four"]
    lines: dict[str, list[Line]] = {name: [] for name in names}
    counts: Counter[tuple[str, int]] = Counter()
    latest: dict[str, int] = {}
    values: list[list[int]] = []
    for number in range(6_000):  # as they come live, one each second
        line = Line(number, begin + number, choose.choice("abc"))
        name = choose.choice([*names, "one", "one"])
        lines[name].append(line)
        if name not in {"three", "four"}:
            counts[line.sensor, line.at // 10 * 10] += 1
        elif name == "four":
            latest[line.sensor] = number
        elif line.sensor in latest:
            values.append([number, latest[line.sensor]])
    for name, of_file in lines.items():
        if name.startswith("csv"):
            pd.DataFrame(of_file).to_csv(tmp_path / f"{name}.csv", index=False)
        else:
            text = "".join(json.dumps(line._asdict()) + "\n" for line in of_file)
            (tmp_path / f"{name}.ndjson").write_text(text)
    (tmp_path / "app.py").write_text(APP)
    state = tmp_path / "state"
    ran = called("run", tmp_path / "app.py", "--state-dir", state, "--until-done")
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in (tmp_path / "counts.out").read_text().splitlines()]
    assert sorted(found) == sorted([*where, count] for where, count in counts.items())
    joined = [json.loads(line) for line in (tmp_path / "values.out").read_text().splitlines()]
    assert sorted(joined) == sorted(values)
