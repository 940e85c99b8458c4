"""The processes of a run: which there are, and that none is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spark.harness import APPS
from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef

pytestmark = pytest.mark.spark

APPLICATION = """
import os

import wallaroo


class Seen:
    pass


@wallaroo.key_extractor
def key(message):
    return message[:1]


@wallaroo.state_computation(name="where", state=Seen)
def where(message, seen):
    return f"{message} {os.getppid()} {os.getpid()}"


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.computation(name="here")
def here(message):
    return f"{message} {os.getppid()}"


@wallaroo.encoder
def encode(text):
    return text


def application_setup(args):
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("127.0.0.1", "0", decode))
    told = source.to(here).key_by(key).to(where)
    return wallaroo.build_application(
        "Where", told.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "1", encode))
    )
"""


def test_a_key_stays_with_its_process(on_spark: InProcess, tmp_path: Path) -> None:
    file = tmp_path / "application.py"
    file.write_text(APPLICATION)
    sent = [("in", b"%d" % (n % 10)) for n in range(200)]
    made = on_spark.run(ApplicationRef(str(file)), sent, max_chunk_bytes=1)
    (outputs,) = made.by_sink.values()
    processes: dict[bytes, list[bytes]] = defaultdict(list)
    for output in outputs:
        key, *_, process = output.split()
        if processes[key][-1:] != [process]:
            processes[key].append(process)
    assert len(processes) == 10
    assert made.chunks > 10
    # a process that is slow to tell that it is free loses a partition to another; not more often
    assert max(map(len, processes.values())) < made.chunks / 4


def test_a_run_that_cannot_listen_leaves_no_process(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "wallaroo", "run", str(APPS / "word_count")),
                *("--in", address, "--out", "127.0.0.1:1", "--state-dir", str(tmp_path)),
            ],
            env={**os.environ, "MARK_OF_THE_RUN": mark},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert address in ended.stderr
    assert _processes_with(mark) == []


def _processes_with(mark: str) -> list[str]:
    """Commands of the processes that have *mark* in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return found
