from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.applications.texts import COUNTING
from tests.helpers import ROOT
from wallaroo.cli.main import main

APPS = ROOT / "apps"


def simulate(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=given, catch_exceptions=False)


def test_it_prints_the_outputs_of_the_lines_it_reads() -> None:
    done = simulate(str(APPS / "word_count"), given=b"to be or\r\nnot to be")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-2:] == ["to => 2", "be => 2"]
    assert done.stderr == "2 messages, 6 outputs\n"


def test_files_of_frames_go_to_the_sources_that_are_named(tmp_path: Path) -> None:
    quotes, orders = tmp_path / "quotes", tmp_path / "orders"
    generate = APPS / "market_spread" / "generate.py"
    options = ("--messages", "400", "--orders", orders, "--market-data", quotes)
    subprocess.run([sys.executable, generate, *options], check=True, capture_output=True)
    app = str(APPS / "market_spread")
    named = ("--from", f"market-data={quotes}", "--from", f"Orders={orders}")
    refused = simulate(app, *named)
    assert refused.exit_code == 2
    assert f"'market-data={quotes}' names none of the sources of market-spread" in refused.stderr
    named = ("--from", f"Market Data={quotes}", "--from", f"Orders={orders}")
    done = simulate(app, *named)
    assert done.exit_code == 0
    assert done.stderr.startswith("400 messages, ")


def test_frames_have_the_header_that_the_source_takes(tmp_path: Path) -> None:
    app, given = tmp_path / "short.py", b"\0\1a\0\2bc"
    text = (APPS / "word_count" / "application.py").read_text()
    app.write_text(
        text.replace('header_length=4, length_fmt=">I"', 'header_length=2, length_fmt=">H"')
    )
    assert simulate(str(app), given=given).stdout == "a => 1\nbc => 1\n"


def test_dead_letters_are_told_with_their_place(tmp_path: Path) -> None:
    done = simulate(str(APPS / "word_count"), given=b"one\n\xff\n")
    assert done.stdout == "one => 1\n"
    (letter, summary) = done.stderr.splitlines()
    assert letter.startswith("dead letter: Split and Count / decoder, application.py:")
    assert letter.endswith("invalid start byte; the message: b'\\xff'")
    assert summary == "2 messages, 1 output, 1 dead letter"


def test_the_state_can_be_shown() -> None:
    done = simulate(str(APPS / "word_count"), "--show-state", "--count", "1", given=b"a a\nb\n")
    assert done.stdout.startswith("a => 1\na => 2\n")
    (entity,) = [json.loads(line) for line in done.stdout.splitlines()[2:]]
    assert entity["entity"]["word_totals"] == {"a": 2}


def test_windows_close_on_a_clock_that_the_options_move(tmp_path: Path) -> None:
    app = tmp_path / "per_second.py"
    app.write_text(WINDOWS)
    done = simulate(str(app), "--interval", "0.4", "--until", "60", given=b"a\n" * 5)
    assert [int(line) for line in done.stdout.splitlines()] == [3, 2]
    assert simulate(str(app), given=b"a\n" * 5).stdout == ""


WINDOWS = (
    COUNTING
    + """

class Count(Counting):
    def output(self, key, accumulator):
        return accumulator[0]


def application_setup(args):
    text = wallaroo.source("Texts", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    window = wallaroo.range_windows(wallaroo.seconds(1))
    return wallaroo.build_application(
        "per second",
        text.key_by(first).to(window.over(Count)).to_sink(
            wallaroo.TCPSinkConfig("127.0.0.1", 9, encode)
        ),
    )


@wallaroo.key_extractor
def first(text):
    return text[:1]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.encoder
def encode(count):
    return f"{count}\\n".encode()
"""
)


def test_a_file_that_cannot_be_read_or_ends_within_a_frame_is_named(tmp_path: Path) -> None:
    missing, cut = tmp_path / "missing", tmp_path / "cut"
    app = str(APPS / "word_count")
    refused = simulate(app, "--from", str(missing))
    assert (refused.exit_code, f"cannot read '{missing}': No such file" in refused.stderr) == (
        2,
        True,
    )
    cut.write_bytes(b"\0\0\0\x05abc")
    refused = simulate(app, "--from", str(cut), "--framing", "frames")
    assert refused.exit_code == 2
    assert f"{cut} ends with an incomplete frame of 7 bytes" in refused.stderr


def test_a_line_for_a_topic_with_envelopes_is_a_record_with_a_value_alone(tmp_path: Path) -> None:
    app = tmp_path / "enveloped.py"
    app.write_text("""\
import wallaroo


def decode(record):
    return (record.key, record.value)


def application_setup(args):
    source = wallaroo.KafkaSourceConfig("orders", "127.0.0.1:1", decode, envelope=True)
    encode = wallaroo.encoder(lambda output: repr(output).encode())
    pipeline = wallaroo.source("Orders", source)
    pipeline = pipeline.to_sink(wallaroo.KafkaSinkConfig("out", "127.0.0.1:1", encode))
    return wallaroo.build_application("Enveloped", pipeline)
""")
    assert simulate(str(app), given=b"a\nb\n").stdout == "(None, b'a')\n(None, b'b')\n"


@pytest.mark.parametrize(("framing", "ended"), [("lines", True), ("none", False)])
def test_outputs_that_get_a_line_each_in_a_file_get_one_here(
    tmp_path: Path, framing: str, ended: bool
) -> None:
    app = tmp_path / "lines.py"
    app.write_text(f"""
import wallaroo


def application_setup(args):
    source = wallaroo.TCPSourceConfig("127.0.0.1", 0, bytes.decode, framing="lines")
    sink = wallaroo.FileSinkConfig("out", wallaroo.encoder(str), framing={framing!r})
    return wallaroo.build_application("L", wallaroo.source("l", source).to_sink(sink))
""")
    assert simulate(str(app), given=b"a\nb\n").stdout == ("a\nb\n" if ended else "ab")


def test_code_that_ends_the_process_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text("import os\n\nos._exit(0)\n")
    command = [sys.executable, "-m", "wallaroo", "simulate", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "Error: ends.py:3: os._exit(0) ended this command\n"


def test_an_application_that_takes_no_addresses_gets_none(tmp_path: Path) -> None:
    file = tmp_path / "reads.py"
    file.write_text(
        "import wallaroo\n\n"
        "def application_setup(args):\n"
        "    source = wallaroo.FileSourceConfig(args[0], bytes.decode, framing='lines')\n"
        "    sink = wallaroo.TCPSinkConfig('127.0.0.1', 1, wallaroo.encoder(str))\n"
        "    return wallaroo.build_application('r', wallaroo.source('r', source).to_sink(sink))\n"
    )
    (tmp_path / "lines").write_text("ada\n")
    done = simulate(str(file), "--", str(tmp_path / "lines"))
    assert (done.exit_code, done.stdout) == (0, "ada")
