"""`wallaroo explain`: what it prints, and how it refuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import publish
from tests.helpers import WORD_COUNT, wait_until
from tests.history.harness import Recorded, record_words
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.log.archiving import archive_oldest
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.store import StoreLimits
from wallaroo.wire.records import FailedMessage, Tally

SOURCE = "Split and Count"


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    record_words(tmp_path, [b"hello zebra", b"zoo zebra"], [b"alpha", b"zoo\x1b[2J"])
    return tmp_path


def explain(directory: Path, *arguments: str, given: str = "") -> Result:
    asked = ["explain", str(WORD_COUNT), *arguments, "--state-dir", str(directory)]
    return CliRunner().invoke(main, asked, input=given)


def test_each_change_is_a_block_of_lines(counted: Path) -> None:
    done = explain(counted, "z")
    assert done.exit_code == 0
    blocks = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(blocks) == 4
    first = done.stdout.splitlines()[:6]
    assert first[0].startswith("offset 0  20")
    assert first[0].endswith("from 'Split and Count': b'hello zebra'")
    assert [line.split(maxsplit=1)[1] for line in first[1:3]] == [
        "'hello zebra'",
        "into words            'zebra'",
    ]
    assert first[3].endswith("word totals['z'] (new) .word_totals['zebra'] + 1")
    assert first[4].split() == ["emits", "('zebra',", "1)"]
    assert first[5].endswith(r"b'zebra => 1\n'")
    assert "\x1b" not in done.stdout


def test_the_latest_changes_are_shown_and_those_up_to_a_message_or_a_time(counted: Path) -> None:
    done = explain(counted, "z", "--changes", "1")
    assert done.stdout.startswith("offset 3  ")
    assert done.stderr == "3 earlier changes left out; --changes 4 shows all\n"
    assert explain(counted, "z", "--at", "0").stdout.count("offset") == 1
    assert explain(counted, "z", "--at", "2100-01-01").stdout.count("offset") == 4
    (shown,) = re.findall(
        "offset 1  (.*)  from", explain(counted, "z", "--at", "1", "--changes", "1").stdout
    )
    assert explain(counted, "z", "--at", shown).stdout.count("offset") == 3
    refused = explain(counted, "z", "--at", "2001-01-01T00:00:00")
    assert refused.exit_code == 2
    assert "has no change of an entity with the key 'z' up to 2001-01-01T00:00:00" in refused.stderr
    assert "'soon' is neither an offset nor a time" in explain(counted, "z", "--at", "soon").stderr


def test_json_has_everything(counted: Path) -> None:
    done = explain(counted, "z", "--json", "--at", "1", "--changes", "1")
    (change,) = map(json.loads, done.stdout.splitlines())
    assert change["offset"] == 1
    assert change["state"] == "word totals"
    assert change["key"] == "z"
    assert change["path"][-1] == {"step": "split into words", "message": "zebra"}
    assert change["before"]["word_totals"] == {"zebra": 1, "zoo": 1}
    assert change["after"]["word_totals"] == {"zebra": 2, "zoo": 1}
    assert change["outputs"] == [{"$tuple": ["zebra", 2]}]
    assert "published" not in change


@pytest.mark.parametrize(("typed", "code"), [("continue", 0), ("quit", 130)])
def test_a_debugger_stops_where_a_function_gets_the_entity(
    counted: Path, typed: str, code: int
) -> None:
    asked = ["explain", str(WORD_COUNT), "a", "--debug", "--state-dir", str(counted)]
    done = subprocess.run(
        [sys.executable, "-m", "wallaroo", *asked],
        input=f"p (word, totals.word_totals)\n{typed}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert "application.py" in done.stdout
    assert "('alpha', {})" in done.stdout
    assert ("offset 2  " in done.stdout) == (code == 0)


DEBUGPY = """
import sys

import pydevd


def listen(address):
    if address[1] == 1:
        raise RuntimeError("Permission denied")
    return address[0], 5678


def wait_for_client():
    print("attached", file=sys.stderr)


def trace_this_thread(on):
    assert not on


def is_client_connected():
    return True
"""
PYDEVD = """
import sys


def settrace(stop_at_frame, **_options):
    code = stop_at_frame.f_code
    print("stops in", code.co_name, dict(stop_at_frame.f_locals)["word"], file=sys.stderr)
"""


def test_a_debugger_may_attach(counted: Path, tmp_path: Path) -> None:
    def debugged(port: str, *options: str) -> subprocess.CompletedProcess[str]:
        asked = ["explain", str(WORD_COUNT), "z", "--debug-port", port, *options]
        return subprocess.run(
            [sys.executable, "-m", "wallaroo", *asked, "--state-dir", str(counted)],
            env=os.environ | {"PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    package = tmp_path / "package"
    package.mkdir()
    (package / "debugpy.py").write_text("raise ImportError")
    missing = debugged("0")
    told = "--debug-port requires debugpy: install it with `pip install debugpy`"
    assert (missing.returncode, told in missing.stderr) == (2, True)
    (package / "debugpy.py").write_text(DEBUGPY)
    (package / "pydevd.py").write_text(PYDEVD)
    done = debugged("0", "--at", "1")
    assert done.stderr.splitlines() == [
        "waiting for a debugger at 127.0.0.1:5678",
        "attached",
        "stops in count_word zoo",
        "stops in count_word zebra",
    ]
    assert done.stdout.count("word totals['z']") == 3
    refused = debugged("1")
    assert refused.returncode == 1
    assert "debugpy cannot listen on 127.0.0.1:1: Permission denied; choose" in refused.stderr


def test_what_is_not_there_is_refused_by_name(counted: Path, tmp_path: Path) -> None:
    refused = explain(counted, "nobody")
    assert refused.exit_code == 2
    assert f"the log in {counted / LOG} has no change of an entity with the key 'nobody'" in (
        refused.stderr
    )
    refused = explain(counted, "z", "--state", "totals")
    assert "there is no state 'totals'; the application has 'word totals'" in refused.stderr
    refused = explain(tmp_path / "none", "z")
    assert f"{tmp_path / 'none'} has no log: no gateway has run" in refused.stderr


def test_an_output_is_shown_with_its_message(counted: Path) -> None:
    done = explain(counted, "--output", "Split and Count:zebra => 2")
    assert done.exit_code == 0, done.output
    title, first, *rows = done.stdout.splitlines()
    assert re.fullmatch(r"output \d of sink 'Split and Count': b'zebra => 2\\n'", title)
    assert first.startswith("offset 1  ")
    assert rows[2].endswith("word totals['z'] .word_totals['zebra'] 1 → 2")
    assert rows[-1].endswith(r"b'zebra => 2\n'")
    number = title.split()[1]
    again = explain(counted, "--output", f"Split and Count:{number}", "--json")
    (change,) = map(json.loads, again.stdout.splitlines())
    assert (change["offset"], change["key"]) == (1, "z")
    assert again.stderr == ""


def test_options_that_exclude_each_other_are_refused(counted: Path) -> None:
    output = ("--output", "Split and Count:1")
    for given, problem in (
        ((), "name a KEY, or give --output SINK:NUMBER or --late"),
        (("z", *output), "--output takes the place of KEY"),
        ((*output, "--at", "1"), "--output takes the place of KEY"),
        ((*output, "--snapshot", "s"), "--output takes the place of KEY"),
        ((*output, "--debug"), "--debug and --debug-port need a KEY"),
        (("--late", "--with-app", "x"), "--with-app, --debug and --debug-port need a KEY"),
        (("--late",), f"the log in {counted / LOG} has no late message"),
        (("--output", "1"), "'1' is not SINK:NUMBER or SINK:TEXT"),
    ):
        refused = explain(counted, *given)
        assert (refused.exit_code, problem in refused.stderr) == (2, True), refused.stderr


READS_ARGUMENTS = """
import wallaroo


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    return data


@wallaroo.computation(name="twice")
def twice(data):
    return data * 2


@wallaroo.encoder
def encode(data):
    return data


def application_setup(args):
    assert args == ["--for", "z"], args
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("in", "127.0.0.1", 0, decode))
    sinks = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode), wallaroo.TCPSinkConfig("", 2, encode)
    pipeline = source.to(twice).to_sinks(
        [sink.named(name) for sink, name in zip(sinks, ("all", "all:1"))]
    )
    return wallaroo.build_application("Twice", pipeline)
"""


def test_a_message_without_state_is_shown_and_arguments_are_the_applications(
    tmp_path: Path,
) -> None:
    (tmp_path / "twice.py").write_text(READS_ARGUMENTS)
    app, args = str(tmp_path / "twice.py"), ("--for", "z")
    recorded = Recorded(tmp_path, application_without_addresses(app, args))
    recorded.run([("in", b"a"), ("in", b"b")])
    recorded.close()
    for number, offset in (("all:2", 1), ("all:1:1", 0), ("all:b'aa'", 0)):
        asked = ["explain", app, "--output", number, "--state-dir", str(tmp_path), "--", *args]
        done = CliRunner().invoke(main, asked)
        assert done.exit_code == 0, done.output
        title, first, decoded, step, sent = done.stdout.splitlines()
        assert first.startswith(f"offset {offset}  ")
        name, payload = number.rpartition(":")[0], "ab"[offset]
        assert title.startswith("output ")
        assert decoded.split() == ["decoder", f"b'{payload}'"]
        assert step.split() == ["twice", f"b'{payload * 2}'"]
        assert sent.split() == ["sends", "to", f"'{name}'", f"b'{payload * 2}'"]


def test_of_messages_that_make_the_same_all_are_shown(tmp_path: Path) -> None:
    """Which one has made an output is not known if their keys are in several partitions."""
    code = (WORD_COUNT / "application.py").read_text()
    changed = code.replace('f"{word} => {count}\\n".encode()', 'b"same"')
    assert changed != code
    (tmp_path / "application.py").write_text(changed)
    recorded = Recorded(tmp_path, application_without_addresses(str(tmp_path), ()))
    recorded.run([(SOURCE, b"a"), (SOURCE, b"b"), (SOURCE, b"c")])
    recorded.close()
    asked = ["explain", str(tmp_path), "--output", f"{SOURCE}:2", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(main, [*asked, "--changes", "2", "--json"])
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [1, 2]
    told = "note: one of 3 messages that were processed together made it; 1 message left out\n"
    assert done.stderr == told


LATE = """
import wallaroo


class Count(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, message, accumulator):
        accumulator[0] += 1

    def combine(self, one, other):
        return [one[0] + other[0]]

    def output(self, key, accumulator):
        return key, accumulator[0]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    return data.decode().split()


@wallaroo.key_extractor
def name(message):
    return message[0]


@wallaroo.encoder
def encode(output):
    return str(output)


def time(message):
    return wallaroo.seconds(10**9 + int(message[1]))


def application_setup(args):
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("in", "127.0.0.1", 0, decode))
    windows = wallaroo.range_windows(wallaroo.seconds(10)).with_event_time(time).over(Count)
    pipeline = source.key_by(name).to(windows)
    return wallaroo.build_application(
        "Late", pipeline.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, encode))
    )
"""


def test_late_messages_are_shown_with_the_windows_that_they_missed(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    app = str(tmp_path / "late.py")
    recorded = Recorded(tmp_path, application_without_addresses(app, ()))
    for name in (b"ada", b"bob", b"cyd"):
        recorded.run([("in", b"%s %d" % (name, at)) for at in (5, 900, 6)])
    recorded.close()

    def shown(*options: str) -> list[int]:
        asked = ["explain", app, "--late", "--json", "--state-dir", str(tmp_path), *options]
        done = CliRunner().invoke(main, asked)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        return [json.loads(line)["offset"] for line in done.stdout.splitlines()]

    assert shown() == [2, 5, 8]
    assert shown("--changes", "2") == [5, 8]
    assert shown("--at", "5") == [2, 5]
    asked = ["explain", app, "bob", "--late", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.stdout.startswith("offset 5  ")
    assert done.stdout.splitlines()[-1].split(maxsplit=1) == [
        "fails",
        "it came too late for its windows",
    ]


def test_a_dead_letter_says_how_its_key_is_explained(tmp_path: Path) -> None:
    application = application_without_addresses(str(WORD_COUNT), ())
    recorded = Recorded(tmp_path, application)
    recorded.run([(SOURCE, b"zebra")])
    assert recorded.store.journal.submit(0, 1, b"\0\0\0\3zoo")
    assert recorded.store.journal.flush(10)
    failed = FailedMessage(SOURCE, "Count Word", "application.py:1", "E", "'zoo'", "'z'", 1)
    tally = Tally(set_aside=1, letters=[failed])
    evidence = EvidenceFinder(application, recorded.store.journal, {})
    publish(recorded.store, FinishedChunk(2, 2, (), tally, []), evidence=evidence)
    recorded.store.writer.flush()
    recorded.close()
    asked = ["dead-letters", "show", str(WORD_COUNT), "1", "--state-dir", str(tmp_path)]
    (line,) = [
        line for line in CliRunner().invoke(main, asked).stdout.splitlines() if "explain" in line
    ]
    _, _, command = line.partition("wallaroo ")
    done = CliRunner().invoke(main, [*shlex.split(command), "--state-dir", str(tmp_path)])
    assert "word totals['z'] (new) .word_totals['zebra'] + 1" in done.stdout


def test_a_key_may_look_like_an_option(counted: Path) -> None:
    for key in ("-5", "-1.5", "'-x'"):
        assert f"no change of an entity with the key {key!r}" in explain(counted, key).stderr
    assert "No such option '--statt'" in explain(counted, "z", "--statt", "x").stderr


def test_what_is_archived_is_read_by_all_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=2_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    archive, state = tmp_path / "archive", tmp_path / "state"
    archive.mkdir()
    state.mkdir()
    application = application_without_addresses(str(WORD_COUNT), ())
    limits = StoreLimits(JournalLimits(archive=archive))
    recorded = Recorded(state, application, limits=limits)
    for _ in range(19):
        recorded.run([(SOURCE, b"zebra")])
        recorded.checkpoint()
    wait_until(lambda: len([*(state / LOG).glob("log-*")]) == 1, "the release of segments")
    recorded.run([(SOURCE, b"zebra")])  # in the log, and not only in the archive
    recorded.close()
    while archive_oldest(state / LOG, archive):
        pass
    app, options = str(WORD_COUNT), ["--state-dir", str(state)]
    asked = ["explain", app, "z", "--at", "0", *options]
    assert CliRunner().invoke(main, asked).exit_code == 2
    refused = explain(state, "nobody")
    assert "with the key 'nobody'; it has only messages from offset 19 on" in refused.stderr
    done = CliRunner().invoke(main, [*asked, "--archive", str(archive)])
    assert "word totals['z'] (new) .word_totals['zebra'] + 1" in done.stdout
    asked = ["explain", app, "--output", f"{SOURCE}:1", *options, "--archive", str(archive)]
    assert "offset 0  " in CliRunner().invoke(main, asked).stdout
    asked = ["replay", app, str(tmp_path / "again"), *options, "--archive", str(archive)]
    done = CliRunner().invoke(main, asked)
    assert "20 messages run again" in done.stderr
    asked = ["rehearse", app, *options]
    assert "outputs are not compared" in CliRunner().invoke(main, asked).stdout
    ways: list[list[str]] = [asked, ["shadow", app, *options, "--for", "0.1"]]
    for way in ways:
        done = CliRunner().invoke(main, [*way, "--archive", str(archive)])
        assert f"sink '{SOURCE}': 20 outputs the same" in done.stdout
    asked = ["log", str(state), "--kind", "published", "--archive", str(archive)]
    assert len(CliRunner().invoke(main, asked).stdout.splitlines()) == 20
    refused = CliRunner().invoke(main, [*asked, "--archive", str(tmp_path / "none")])
    assert (refused.exit_code, "does not exist" in refused.stderr) == (2, True)
    sorted(archive.iterdir())[1].unlink()
    done = CliRunner().invoke(main, asked)
    assert (done.exit_code, "archive incomplete" in done.stderr) == (0, True)
    assert "archive incomplete" not in done.stdout
