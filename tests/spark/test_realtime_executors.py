"""The real-time engine with executors: processes of their own, as on other machines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.harness import Authority
from tests.helpers import free_address, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, processes, run, send
from wallaroo.run.background_run import BackgroundRun
from wallaroo.system.credentials import AUTHORITIES_VARIABLE

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
EXECUTOR = "CoarseGrainedExecutorBackend"


def counted(receiver: Receiver, state: Path, number: int, *options: str) -> BackgroundRun:
    """Word Count on *number* executors."""
    master = f"local-cluster[{number},4,1024]"
    chosen = ("--master", master, *options)
    return run(APPS / "word_count", receiver, state, options=chosen)


def is_complete(received: set[bytes], payloads: list[bytes]) -> bool:
    expected = Counter(word for payload in payloads for word in payload.split())
    return received == {
        b"%s => %d\n" % (word, n + 1) for word in expected for n in range(expected[word])
    }


def test_executors_reach_the_gateway_by_tls_and_what_is_killed_loses_nothing(
    tmp_path: Path, cached_executors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "authority")
    files = authority.files()
    pace = "quiet_s=0.1,epoch_first_s=0.1,epoch_least_s=0.1"
    monkeypatch.setenv("WALLAROO_PACE", pace)
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(authority.file))  # for the test's own client
    tls = ("--gateway-tls", str(files.certificate), str(files.key), str(authority.file))
    options = ("--gateway", free_address(), *tls)
    lines, payloads = [b"one two"] * 50, [b"w%d x" % (n % 100) for n in range(20_000)]
    with (
        Receiver("lines") as receiver,
        counted(receiver, tmp_path / "state", 2, *options) as running,
    ):
        seen = list[list[int]]()
        while not seen or seen.count(seen[-1]) < 3:  # the end of an epoch keeps the processes
            assert len(seen) < 10, "they move once the second executor is there, and then stay"
            ended = ended_epochs(running)
            send(running.sources[SOURCE], lines)
            receiver.wait_for(100 * (len(seen) + 1))
            wait_until(partial(has_ended, running, ended), "an epoch to end")
            seen.append(forked(running))
        first, rounds = seen[-1], len(seen) + 1
        assert len(first) == 3
        token = json.loads((tmp_path / "state" / "endpoint.json").read_text())["token"]
        for part in ("realtime.agent", EXECUTOR, "PythonGatewayServer"):
            parts = [psutil.Process(pid) for pid in processes(running, part)]
            assert parts
            assert not [one for one in parts if token in str((one.environ(), one.cmdline()))]
        os.kill(first[0], signal.SIGKILL)
        failed = running.wait_for_event("query restarts", PATIENCE_S)
        # the latter if Spark takes longer than 3 s to say so, as on an overloaded machine
        known = "the process of .* was killed by SIGKILL|the gateway has cut off the query"
        assert re.search(known, failed["reason"])
        send(running.sources[SOURCE], lines)
        receiver.wait_for(100 * rounds)
        assert len(forked(running)) == 3
        assert not set(forked(running)) & set(first)

        assert len(processes(running, EXECUTOR)) == 2
        sending = threading.Thread(target=send, args=(running.sources[SOURCE], payloads))
        sending.start()
        receiver.wait_for(3_000)
        os.kill(processes(running, EXECUTOR)[0], signal.SIGKILL)
        receiver.wait_for(100 * rounds + 2 * len(payloads))
        sending.join()
        assert running.stop() == 0
        assert receiver.messages.count(b"one => 200\n") == 1
        received = set(receiver.messages)  # plain TCP may repeat the last ones after a kill
    assert is_complete(received, [*lines * rounds, *payloads])


def ended_epochs(running: BackgroundRun) -> float:
    """How many epochs have ended."""
    (url,) = [event["dashboard"] for event in running.events if event["event"] == "ready"]
    with urllib.request.urlopen(f"{url}metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    return next(one.value for one in samples if one.name == "wallaroo_epoch_end_seconds_count")


def has_ended(running: BackgroundRun, before: float) -> bool:
    """Whether more epochs have ended than *before*."""
    return ended_epochs(running) > before


def forked(running: BackgroundRun) -> list[int]:
    """The processes that run user code: what agents have forked."""
    agents = processes(running, "realtime.agent")
    return sorted(pid for pid in agents if psutil.Process(pid).ppid() in agents)


@pytest.mark.usefixtures("cached_executors")
def test_messages_flow_while_executors_come_and_go(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.scaled", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4_000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    for key, numbers in told["outputs"].items():
        assert numbers == [str(n + 1) for n in range(len(numbers))], key
    assert sum(map(len, told["outputs"].values())) == told["sent"]
    # then on one executor, then on three again, of which one may come long before the other
    assert told["starts"] in (3, 4)
    assert told["timed"] == [-1, 0, 1, 2, 3], "the first stage and each partition tell their time"
