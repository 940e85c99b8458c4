"""`wallaroo check` ends although a function that it calls does not return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S

APPLICATION = """
import collections, itertools, threading
import wallaroo
from wallaroo import codecs

def swallowing(line):
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

def in_c(line):
    collections.deque(itertools.count(), maxlen=0)

@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()

def waiting():
    return codecs.avro_decoder(registry=codecs.SchemaRegistry("http://127.0.0.1:1"))

def application_setup(args):
    decoder, time = (waiting(), str) if args == ["registry"] else (decode, globals()[args[0]])
    config = wallaroo.FileSourceConfig("lines.txt", decoder, "lines", time=time)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    return wallaroo.build_application("hanging", wallaroo.source("lines", config).to_sink(sink))
"""


def checked(directory: Path, case: str) -> subprocess.CompletedProcess[str]:
    (directory / "hanging.py").write_text(APPLICATION)
    (directory / "lines.txt").write_bytes(b"\0\0\0\0\1text\n")
    command = [sys.executable, "-m", "wallaroo", "check", "hanging.py", "--function-timeout", "0.2"]
    return subprocess.run(
        [*command, "--", case],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize("function", ["swallowing", "in_c"])
def test_a_function_that_no_exception_ends_is_shown_where_it_is(
    function: str, tmp_path: Path
) -> None:
    done = checked(tmp_path, function)
    assert (done.returncode, f"in {function}" in done.stderr) == (1, True), done.stderr


def test_an_unavailable_registry_is_not_waited_for(tmp_path: Path) -> None:
    done = checked(tmp_path, "registry")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("hanging is well formed:")
