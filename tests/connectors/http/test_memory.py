"""How much memory bodies take in the gateway, whatever they contain."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers import ROOT

MIB = 1024**2
BODIES, BODY_MIB = 4, 16
TIMES = 6
"""How many times its size a body takes at most."""
_CHILD = f"""
import resource, sys, tempfile, threading
from pathlib import Path
from tests.connectors.http import test_source
from wallaroo.wire.framing import Framing
def taken():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
line = b"x" * int(sys.argv[1]) + b"\\n"
test_source.FRAMING = Framing(4, ">I")
body = line * ({BODY_MIB * MIB} // len(line))
with tempfile.TemporaryDirectory() as directory, test_source.Running(Path(directory)) as running:
    running.post(b"first")
    before, answers = taken(), []
    def post():
        answers.append(running.post(body, headers=test_source.NDJSON).status)
    posts = [threading.Thread(target=post) for _ in range({BODIES})]
    for post in posts: post.start()
    for post in posts: post.join()
    print(taken() - before, *answers)
"""


@pytest.mark.parametrize(
    ("letters", "answer"),
    [(2, 413), (0, 413), (170, 202), (MIB, 202)],
    ids=["of two letters", "empty", "as many as there may be", "long"],
)
def test_bodies_of_lines_take_at_most_so_many_times_their_size(letters: int, answer: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(letters)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=600,
    )
    mib, *answers = map(int, done.stdout.splitlines()[-1].split())  # logs may come before
    assert answer in answers
    assert set(answers) <= {answer, 429}  # the journal is full
    assert mib <= TIMES * BODIES * BODY_MIB
