"""What user code prints, anywhere and however much, arrives as events and disturbs nothing."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.helpers import KILLING, wait_until
from tests.spark.harness import PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun, Event

pytestmark = pytest.mark.spark

APP = Path(__file__).with_name("printing.py")
COUNT, FLOOD_AT = 400, 200
"""Messages of each source, and the one that functions print much at, as the application has it."""
WAYS = {
    "print": "print",
    "sys.stdout": "print",
    "sys.stdout.buffer": "print",
    "os.write to 1": "output",
    "os.write to 2": "output",
    "sys.stderr": "stderr",
    "logging": "printing",
}
"""Ways to say something, and what events call them."""
_EVERYWHERE, _GATEWAY, _WORKER = {"driver", "gateway", "worker"}, {"gateway"}, {"worker"}
PROCESSES = {
    "import": _EVERYWHERE,
    "application_setup": _EVERYWHERE,
    "state": {"driver", "worker"},
    "payload_length": _GATEWAY,
    "initial_value": _GATEWAY,
    "apply": _GATEWAY,
    "read": _GATEWAY,
    "write": _GATEWAY,
    "decode": _WORKER,
    "decoder": _WORKER,
    "computation": _WORKER,
    "key": _WORKER,
    "state computation": _WORKER,
    "encoder": _WORKER,
}
"""Where functions run."""


def process_of(event: Event) -> str:
    return "worker" if "worker" in event else event.get("process", "")


def due() -> set[tuple[str, str, str]]:
    """What is said once: what, how events call its way, and in which process."""
    told = {("setup by a program", "output", ""), ("and", "output", "")}
    for where, parts in PROCESSES.items():
        for way, called in WAYS.items():
            named = {""} if called == "output" else parts
            told |= {(f"{where} by {way}", called, part) for part in named}
    return told


def missing(events: list[Event]) -> set[str]:
    """What has not been said yet."""
    said = [event for event in list(events) if event.get("part") == "application"]
    heard = {(event["event"], event["said"], process_of(event)) for event in said}
    texts = " ".join(event["event"] for event in said)
    others = {f"{where} by {way}" for where in PROCESSES for way in ("structlog", "warnings")}
    return {str(one) for one in due() - heard} | {one for one in others if one not in texts}


def holds_all(file: Path) -> bool:
    return file.exists() and len(file.read_bytes().split()) == COUNT


def test_whatever_user_code_prints_in_any_process_arrives_and_stops_nothing(
    tmp_path: Path,
) -> None:
    command = ["run", str(APP), "--in", "127.0.0.1:0", "--workers", "2", "--ui", "127.0.0.1:0"]
    command += ["--state-dir", str(tmp_path / "state"), "--", str(tmp_path)]
    numbers = [b"%d" % number for number in range(1, COUNT + 1)]
    out = [tmp_path / name for name in ("Sent", "Made", "Read")]
    with BackgroundRun(command) as running:
        send(running.sources["Sent"], numbers[: FLOOD_AT - 1])
        wait_until(lambda: not missing(running.events), "what is said once", PATIENCE_S)
        (tmp_path / "flood").touch()
        send(running.sources["Sent"], numbers[FLOOD_AT - 1 :])
        for file in out:
            wait_until(functools.partial(holds_all, file), f"all of {file.name}", PATIENCE_S)
        assert running.stop() == 0
    for file in out:
        assert sorted(map(int, file.read_text().split())) == list(range(1, COUNT + 1))
    assert all("part" in event for event in running.events), "each line is an event"
    placed = [event for event in running.events if event.get("said") in {"print", "stderr"}]
    assert {event["place"].partition(":")[0] for event in placed} == {"printing.py"}


def test_a_message_that_ends_its_process_is_printed_once(tmp_path: Path) -> None:
    application = tmp_path / "application.py"
    text = KILLING.read_text()
    condition = '    if message == "kill"'
    said = f"    print(f'took {{message}}')\n{condition}"
    application.write_text(text.replace(condition, said))
    with (
        Receiver("frames") as receiver,
        run(application, receiver, tmp_path / "state", options=["--workers", "1"]) as running,
    ):
        send(running.sources["in"], [b"a", b"kill", b"b"])
        receiver.wait_for(2)
        assert running.stop() == 0
        printed = [event["event"] for event in running.events if event.get("said") == "print"]
    assert sorted(printed) == ["took a", "took b", "took kill"]
