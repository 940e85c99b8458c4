"""What others wrote cannot forge a line, or what a terminal shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner
from rich.console import Console

from tests.gateway.dead_letters.test_store import OF_ONE, Stored, call
from wallaroo.cli.main import _Group
from wallaroo.errors import ApplicationError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.observability import logs
from wallaroo.run.live_view import panel
from wallaroo.system.printable import printable, printable_output

NASTY = "a\n12:00:00 [info] forged\r\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\u2066\u2028\x7f\udc80z"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066\ud800-\udfff]")


def is_safe(text: str) -> bool:
    return not UNSAFE.search(text) and not re.search(r"(?m)^12:00:00 \[info\] forged", text)


def test_it_is_one_line_that_shows_what_is_there() -> None:
    assert is_safe(printable(NASTY))
    assert printable(NASTY).startswith(r"a\n12:00:00 [info] forged\r\x1b[2J")
    assert printable("Gewürze, 香料, 🌶") == "Gewürze, 香料, 🌶"


@pytest.mark.parametrize("terminal", [True, False])
def test_logs(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(terminal=terminal)
    structlog.get_logger("wallaroo").warning("message set aside", key=NASTY, more=[NASTY])
    logs.relay(json.dumps({"event": NASTY, "level": "info", "part": "application", NASTY: 1}))
    structlog.reset_defaults()
    told = capsys.readouterr().err
    # colours are the renderer's own
    assert is_safe(re.sub(r"\x1b\[\d*m", "", told))
    assert len(told.splitlines()) == 2
    if not terminal:
        assert [json.loads(line).get("key") for line in told.splitlines()] == [NASTY, None]


def test_dead_letters(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.accept(NASTY.encode("utf-8", "surrogateescape"))
    nasty = NASTY.replace("\udc80", "")
    stored.publish(OF_ONE._replace(arrival=0, key=nasty, error=nasty, message=nasty, step=nasty))
    stored.close()
    listed = call("list", "--state-dir", str(tmp_path)).output
    assert is_safe(listed)
    assert len(listed.splitlines()) == 1
    shown = call("show", "1", "--state-dir", str(tmp_path)).output
    assert is_safe(shown)
    assert len(shown.splitlines()) == 11


def test_errors_of_user_code(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(f"raise ValueError({NASTY!r})")
    with pytest.raises(ApplicationError) as raised:
        ApplicationRef(str(tmp_path)).load()
    assert is_safe(str(raised.value))

    @click.group(cls=_Group)
    def main() -> None: ...

    @main.command()
    def fail() -> None:
        raise ApplicationError(NASTY.replace("\n", " "))

    assert is_safe(CliRunner().invoke(main, ["fail"]).output)


def test_the_live_view() -> None:
    pipeline = {"in": 1.0, "out": 1.0, "p50": 0.1, "p95": 0.1, "p99": 0.1, "messages": 1}
    error = {"pipeline": NASTY, "step": NASTY, "place": NASTY, "error": NASTY}
    seen = {
        "point": {"pipelines": {NASTY: pipeline}, "undelivered": 0},
        "errors": [error],
        "sources": [{"name": NASTY, "waits": NASTY}],
        "backlog": {"messages": 0, "seconds": 0.0},
        "workers": {"alive": 1, "wanted": 1},
        "windows": {"open": 3, "watermark_s": 1e20},
        "paused_since": 1.0,
        "away": NASTY,
        "interruption": NASTY,
        **dict.fromkeys(("connections", "set_aside", "unknown_key", "late"), 0),
    }
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(panel(NASTY, seen))
    assert is_safe(captured.get())


def test_outputs_on_a_terminal() -> None:
    shown = printable_output(b"a\x1b[2J\xff\nb\n").decode()
    assert shown == "a\\x1b[2J\\xff\nb\n"
