"""What user code prints and logs becomes events, and is never the reason why a message fails."""

from __future__ import annotations

import io
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from wallaroo.api.retries import retries
from wallaroo.dataflow.steps.retrying import retrying
from wallaroo.dataflow.user_logs import WORK, UserLogs, UserStream, _Handler, log_event
from wallaroo.observability import log_channel, logs
from wallaroo.observability.log_channel import Write, _Descriptor


@pytest.fixture
def heard() -> io.StringIO:
    return io.StringIO()


def lines(heard: io.StringIO) -> Write:
    return lambda line: heard.write(line + "\n")


def events(heard: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in heard.getvalue().splitlines()]


def logged(logs: UserLogs, message: str, *arguments: object) -> None:
    record = logging.LogRecord("mine", logging.INFO, "f.py", 7, message, arguments, None)
    _Handler(logs).handle(record)


def test_a_line_is_told_with_its_place(heard: io.StringIO) -> None:
    logs = UserLogs("Words", lines(heard), {})
    print("printed", file=UserStream(logs, "print", 1))
    logged(logs, "%s of %d", "one", 2)
    first, second = events(heard)
    assert (first["event"], first["said"], first["application"]) == ("printed", "print", "Words")
    assert first["place"].startswith("test_user_logs.py:")
    assert (second["event"], second["said"], second["place"]) == ("one of 2", "mine", "f.py:7")


def test_what_is_logged_wrongly_is_told_as_it_is(heard: io.StringIO) -> None:
    logged(UserLogs("Words", lines(heard), {}), "%d words", "no")
    (event,) = events(heard)
    assert event["event"].startswith("'%d words' cannot be logged: %d format")
    assert (event["level"], event["place"]) == ("error", "f.py:7")


def test_user_code_does_not_fail_where_nobody_takes_what_it_says() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  (closing it raises)
    logs = UserLogs("Words", _Descriptor(full.fileno()), {})
    print("printed", file=UserStream(logs, "print", 1))
    logged(logs, "logged")
    full.close()


def test_what_is_no_line_is_told_when_it_is_flushed_or_long(heard: io.StringIO) -> None:
    stream = UserStream(UserLogs("Words", lines(heard), {}), "print", 1)
    print("one", 2, end="", file=stream)
    assert not events(heard)
    print(file=stream)
    print("three", end="", file=stream, flush=True)
    stream.buffer.write(b"fo\xffur\nfive")
    stream.flush()
    stream.write("x" * 10_000)
    stream.write("x" * 10_000 + "\n")
    told = [event["event"] for event in events(heard)]
    assert told[:4] == ["one 2", "three", r"fo\xffur", "five"]
    assert "".join(told[4:]) == "x" * 20_000
    assert stream.fileno() == 1


def test_threads_do_not_mix_their_lines(heard: io.StringIO) -> None:
    stream = UserStream(UserLogs("Words", lines(heard), {}), "print", 1)
    stream.write("on")
    other = threading.Thread(target=print, args=("two",), kwargs={"file": stream})
    other.start()
    other.join()
    stream.write("e\n")
    assert [event["event"] for event in events(heard)] == ["two", "one"]


def test_what_a_worker_says_of_itself_is_not_what_the_application_printed(
    heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_channel, "_write", lines(heard))
    monkeypatch.setattr("sys.stdout", UserStream(UserLogs("Words", lines(heard), {}), "print", 1))
    log_event("warning", "a message ends its process", call=7)
    (event,) = events(heard)
    assert (event["part"], event["level"]) == ("worker", "warning")
    assert (event["event"], event["call"]) == ("a message ends its process", 7)
    assert event["application"] == "Words"
    assert event["worker"].startswith("pid ")
    assert "said" not in event


def test_what_a_call_said_in_an_earlier_attempt_is_told_once(heard: io.StringIO) -> None:
    stream = UserStream(UserLogs("Words", lines(heard), {}), "print", 1)
    attempts = iter(range(10))

    def ask(message: str) -> str:
        number = next(attempts)
        for _ in range(2):
            print(f"asks for {message}", file=stream)
        if number % 3 < 2:
            print(f"attempt {number} fails", file=stream)
            raise ConnectionError
        return message

    tried = retrying(ask, retries(2, backoff=0))
    assert (tried("ada"), tried("ada")) == ("ada", "ada")
    once = ["asks for ada", "asks for ada"]
    assert [event["event"] for event in events(heard)] == [
        *(*once, "attempt 0 fails", "attempt 1 fails"),
        *(*once, "attempt 3 fails", "attempt 4 fails"),
    ]


def test_work_that_is_done_again_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(terminal=False)
    monkeypatch.setattr(log_channel, "is_read", lambda: True)
    user_logs = UserLogs("Words", logs.relay, {"worker": "pid 1"})
    for name, said in (("1", "ab"), ("1", "abac"), ("2", "a"), (None, "a"), (None, "a")):
        WORK.begin(name)
        for text in said:
            user_logs.emit(text, "info", "f.py:7", {})
    WORK.begin(None)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in told] == ["a", "b", "a", "c", "a", "a", "a"]
    assert logs.WORK not in told[0]
    structlog.reset_defaults()


def test_a_log_that_no_run_reads_has_no_marks(heard: io.StringIO) -> None:
    WORK.begin("1")
    UserLogs("Words", lines(heard), {}).emit("a", "info", "f.py:7", {})
    WORK.begin(None)
    assert logs.WORK not in events(heard)[0]
