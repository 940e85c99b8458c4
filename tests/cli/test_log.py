"""`wallaroo log`, on logs that a store has written, in use or not, damaged or not."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import U32, finished, opened, outputs, publish
from tests.helpers import PATIENCE_S
from wallaroo.cli.main import main
from wallaroo.errors import RESTORE
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.log.records import HEADER
from wallaroo.gateway.log.segments import HEAD_BYTES
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.store import Store
from wallaroo.wire.records import FailedMessage


def show(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["log", str(directory), *arguments])


def records(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    result = show(directory, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextlib.contextmanager
def in_use(directory: Path) -> Iterator[Store]:
    """A store with a message, a position, and a chunk that was published and delivered."""
    sources = ["lines", "orders"]
    with opened(directory, application="Echo", sources=sources, sinks=["totals"]) as store:
        store.journal.submit(1, 2, U32.frame(b"\x1b[2J") + U32.frame(b"b"))
        store.journal.submit(0, 0, b"", None, Reached("lines", b"4711"))
        store.journal.submit(0, 1, b"c", (StreamName(0, "mine"), 9))
        assert store.journal.flush(PATIENCE_S)
        publish(store, finished(3, outputs(b"out", b"put"), change=b"state"))
        store.outbox.delivered(0, 2)
        store.writer.flush()
        yield store


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with in_use(tmp_path):
        pass
    return tmp_path


def test_each_record_is_a_line_with_what_it_says(written: Path) -> None:
    lines = show(written).stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0].split()[1] == "snapshot"
    assert "tables of 'Echo' as of offset 0" in lines[0]
    for said in (
        "2 messages of source 'orders', offsets 0 to 1",
        "'lines' is read up to b'4711'",
        "1 message of source 'lines', offset 2; stream 'mine' up to its message 9",
        "outputs 1 to 2 of sink 'totals'",
        "chunk 3, messages before 3; 2 outputs for sink 'totals'; 5 bytes of changes of state",
        "the receiver of sink 'totals' has outputs up to 2",
        "the clock shows 20",
    ):
        assert [line for line in lines if said in line], said
    (messages,) = [line for line in lines if "of source 'orders'" in line]
    assert messages.split()[2].startswith("20")
    assert "[2J" not in messages


def test_data_is_shown_if_asked_for_and_does_what_it_likes_to_no_terminal(written: Path) -> None:
    shown = show(written, "--kind", "messages", "--data").stdout
    assert "\x1b" not in shown
    assert r"offsets 0 to 1: b'\x00\x00\x00\x04\x1b[2J\x00\x00\x00\x01b'" in shown
    (made,) = records(written, "--kind", "outputs", "--data")
    assert base64.b64decode(made["data"]) == b"output"
    assert "data" not in records(written, "--kind", "outputs")[0]


def test_kinds_and_numbers_choose_records(written: Path) -> None:
    every = records(written)
    assert records(written, "--from-record", "2", "--to-record", "3") == every[1:3]
    assert records(written, "--tail", "2") == every[-2:]
    assert records(written, "--kind", "published", "--kind", "delivered", "--tail", "9") == [
        record for record in every if record["kind"] in {"published", "delivered"}
    ]
    assert show(written, "--from-record", str(2**63)).stdout == ""
    assert show(written, "--kind", "message").exit_code == 2


def test_json_has_everything_but_data(written: Path) -> None:
    (published,) = records(written, "--kind", "published")
    assert published["query"] == "run"
    assert published["outputs"] == {"totals": 2}
    assert published["changes"] == [[3, 0, 5]]
    snapshot, *_ = records(written, "--kind", "snapshot")
    assert snapshot["tables"]["application"] == "Echo"
    assert snapshot["tables"]["names"] == {"sources": ["lines", "orders"], "sinks": ["totals"]}
    reached = [record["more"] for record in records(written, "--kind", "messages")]
    assert {"reached": ["lines", "4711"]} in reached


def test_sources_and_sinks_have_the_names_that_they_had_when_a_record_was_written(
    written: Path,
) -> None:
    with opened(written, sources=["orders", "new"], sinks=["new", "totals"]) as store:
        store.journal.submit(0, 1, b"d", (StreamName(0, "mine"), 1))
        store.journal.submit(1, 1, b"e")
        assert store.journal.flush(PATIENCE_S)
        publish(store, finished(4, outputs(b"new"), outputs(b"out", to=1)))
        store.outbox.delivered(1, 3)
    messages = records(written, "--kind", "messages")
    assert [one["source"] for one in messages] == ["orders", "lines", "lines", "orders", "new"]
    assert [one["more"]["stream"][0] for one in messages if "stream" in one["more"]] == [
        "lines",
        "orders",
    ]
    made = records(written, "--kind", "outputs")
    assert [(one["sink"], one["first"]) for one in made] == [
        ("totals", 1),
        ("new", 1),
        ("totals", 3),
    ]
    (*_, published) = records(written, "--kind", "published")
    assert published["outputs"] == {"new": 1, "totals": 1}
    lines = show(written, "--kind", "delivered").stdout.splitlines()
    assert [line.partition("the receiver of ")[2] for line in lines] == [
        "sink 'totals' has outputs up to 2",
        "sink 'totals' has outputs up to 3",
    ]
    (*_, snapshot) = records(written, "--kind", "snapshot")
    assert snapshot["tables"]["journal"]["accepted"] == {"lines": 1, "orders": 2}


def test_it_is_read_while_a_gateway_writes_it(tmp_path: Path) -> None:
    with in_use(tmp_path) as store:
        before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        assert "outputs 1 to 2 of sink 'totals'" in show(tmp_path).stdout
        assert {file: file.read_bytes() for file in before} == before
        store.journal.submit(0, 1, b"more")
        assert store.journal.flush(PATIENCE_S)
        assert "offset 3" in show(tmp_path).stdout


def test_a_refused_output_is_counted(tmp_path: Path) -> None:
    letter = FailedMessage("", "table", "", "IntegrityError: no", "x")
    with in_use(tmp_path) as store:
        publish(store, finished(4, outputs(b"x")))
        store.outbox.delivered(0, 3, refused=[RefusedOutput(letter, b"x")])
    (line,) = [one for one in show(tmp_path).stdout.splitlines() if "refused" in one]
    assert line.endswith("the receiver of sink 'totals' has outputs up to 3; 1 output refused")


def test_damage_is_named_after_the_records_before_it(written: Path) -> None:
    every = show(written).stdout.splitlines()
    (file,) = (written / LOG).glob("log-*")
    data = bytearray(file.read_bytes())
    at = HEAD_BYTES
    for _ in range(3):
        at += HEADER.size + HEADER.unpack_from(data, at)[1]
    data[at + HEADER.size] ^= 1
    file.write_bytes(data)
    result = show(written)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == every[:3]
    assert f"{file} is damaged: at byte {at}, record 4 is not as written" in result.stderr
    assert "Traceback" not in result.output
    assert show(written, "--tail", "2").stdout.splitlines() == every[1:3]


def test_a_lost_end_is_named(written: Path) -> None:
    (file,) = (written / LOG).glob("log-*")
    last = len(show(written).stdout.splitlines())
    size = len(file.read_bytes())
    with file.open("r+b") as opened_file:
        opened_file.truncate(size - 3)
    result = show(written)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == last - 1
    due = f"{written / LOG} is damaged: its records {last} to {last} are missing; {RESTORE}"
    assert due in result.stderr
    assert show(written, "--to-record", str(last - 1)).exit_code == 0


def test_what_is_no_state_directory_is_refused(tmp_path: Path) -> None:
    result = show(tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} is not a state directory: it contains no log" in result.stderr


def test_records_of_another_version_are_refused(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wallaroo.history.records.FORMAT", 0)
    result = show(written)
    assert result.exit_code == 1
    assert "and this version of wallaroo reads format 0" in result.stderr


def test_a_reader_may_leave_early(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(3_000):
            store.journal.submit(0, 1, b"x")
        assert store.journal.flush(PATIENCE_S)
    command = f"{sys.executable} -m wallaroo log {tmp_path} | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
