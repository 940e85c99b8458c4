"""All processes of a run end with it, however it ends."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import psutil
import pytest

from tests.helpers import wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, processes, run, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

MARK = "WALLAROO_TEST_RUN"
APP = """
import concurrent.futures
import subprocess
import time
import wallaroo

POOLS = []

def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("Naps", wallaroo.TCPSourceConfig(host, port, decoder))
    sink = wallaroo.FileSinkConfig(args[-1], wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("Naps", source.to(nap).to_sink(sink))

@wallaroo.computation(name="nap")
def nap(text):
    if text == "pool":
        pool = concurrent.futures.ProcessPoolExecutor(2)
        napping = [pool.submit(subprocess.run, ["sleep", "3600"]) for _ in range(2)]
        while not all(one.running() for one in napping):
            time.sleep(0.01)
        POOLS.append(pool)
    if text == "long":
        open("ASLEEP", "w").close()
        time.sleep(3600)
    return text
"""


def processes_of(mark: str) -> dict[int, str]:
    """The processes with *mark* in their environment, whoever started them."""
    found = {}
    for process in psutil.process_iter(["environ", "status", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get(MARK) == mark and process.info["status"] != psutil.STATUS_ZOMBIE:
            found[process.pid] = " ".join(process.info["cmdline"])
    return found


def _named(mark: str, command: str) -> int:
    return list(processes_of(mark).values()).count(command)


@pytest.mark.parametrize(
    ("victims", "message"),
    [
        (("wallaroo gateway ", "wallaroo run "), "short"),  # while the engine asks for messages
        (("realtime.agent", "wallaroo run "), "long"),  # while a function runs
        (("org.apache.spark.api.python.PythonGatewayServer", "wallaroo run "), "long"),
        (("wallaroo run ",), "pool"),
    ],
)
def test_no_process_outlives_a_run_that_is_killed(
    victims: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    (tmp_path / "naps.py").write_text(APP.replace("ASLEEP", str(tmp_path / "asleep")))
    command = ["run", str(tmp_path / "naps.py"), "--in", "127.0.0.1:0", "--no-ui"]
    command += ["--workers", "2", "--state-dir", str(tmp_path / "state"), "--function-timeout", "0"]
    with BackgroundRun([*command, "--", str(tmp_path / "out")]) as running:
        send(running.sources["Naps"], [b"short"])
        running.wait_until_accepted("Naps", 1)
        running.wait_until_processed()
        send(running.sources["Naps"], [message.encode()])
        if message == "long":
            wait_until((tmp_path / "asleep").exists, "a function that does not end", PATIENCE_S)
        else:
            running.wait_until_accepted("Naps", 2)
            running.wait_until_processed()  # it waits for messages now
        if message == "pool":
            wait_until(lambda: _named(mark, "sleep 3600") == 2, "what user code starts")
        found = processes_of(mark)
        assert any("realtime.agent" in command for command in found.values())
        for victim in victims:
            # the first of those that are named alike: the agent, not its processes
            os.kill(min(pid for pid, command in found.items() if victim in command), signal.SIGKILL)
        running.process.wait(PATIENCE_S)
        wait_until(lambda: not processes_of(mark), "the end of all processes", PATIENCE_S)


def test_a_stop_in_the_middle_of_a_function_is_orderly_and_tells_what_is_left(
    tmp_path: Path,
) -> None:
    (tmp_path / "naps.py").write_text(APP.replace("ASLEEP", str(tmp_path / "asleep")))
    command = ["run", str(tmp_path / "naps.py"), "--in", "127.0.0.1:0", "--no-ui"]
    command += ["--state-dir", str(tmp_path / "state"), "--drain-timeout", "0"]
    with BackgroundRun([*command, "--", str(tmp_path / "out")]) as running:
        send(running.sources["Naps"], [b"long", b"short"])
        wait_until((tmp_path / "asleep").exists, "a function that does not end", PATIENCE_S)
        assert running.stop() == 1
    warnings = {e["event"]: e for e in running.events if e.get("level") == "warning"}
    warnings.pop("Java lacks security updates", None)
    ((event, left),) = warnings.items()
    assert event == "stopping before all is delivered"
    assert left["not_processed"] == 2
    assert running.events[-1]["event"] == "stopped"
    assert [event for event in running.events if event.get("level") in {None, "error"}] == []


BEATS = """
import wallaroo

class Beats:
    pass

def again(name, beats, timers):
    timers.set_after(wallaroo.milliseconds(20))

@wallaroo.state_computation(name="beat", state=Beats, on_timer=again)
def beat(key, beats, timers):
    timers.set_after(wallaroo.milliseconds(20))
    return key

def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("Keys", wallaroo.TCPSourceConfig(host, port, decoder))
    sink = wallaroo.FileSinkConfig(args[-1], wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("Beats", source.key_by(len).to(beat).to_sink(sink))
"""


def test_a_stop_does_not_wait_for_timers_of_which_there_is_always_another_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "beats.py").write_text(BEATS)
    command = ["run", str(tmp_path / "beats.py"), "--in", "127.0.0.1:0", "--no-ui"]
    command += ["--state-dir", str(tmp_path / "state"), "--drain-timeout", "5"]
    with BackgroundRun([*command, "--", str(tmp_path / "out")]) as running:
        send(running.sources["Keys"], [b"a" * length for length in range(400)])
        running.wait_until_accepted("Keys", 400)
        running.wait_until_processed()
        assert running.stop() == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 400
    assert running.events[-1]["kept_for_next_start"] == 0


@pytest.mark.parametrize("part", ["bin/java", "wallaroo gateway"])
def test_a_stop_ends_although_a_process_does_not_respond(tmp_path: Path, part: str) -> None:
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, tmp_path) as running:
        send(running.sources["Split and Count"], [b"a b"])
        receiver.wait_for(2)
        (frozen,) = processes(running, part)
        os.kill(frozen, signal.SIGSTOP)
        running.process.terminate()
        running.wait_for_event("signal", PATIENCE_S)
        running.process.terminate()
        assert running.process.wait(PATIENCE_S) == 1
        running.wait_for_event("the stop is given up", PATIENCE_S)
        wait_until(lambda: not psutil.pid_exists(frozen), "the end of what did not respond")
