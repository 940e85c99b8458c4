"""`wallaroo replay`: outputs of recorded messages, in files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import WORD_COUNT
from tests.history.harness import Recorded, record_words
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses

FILE = "Split-and-Count"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    record_words(tmp_path / "state", [b"a b", b"a"], [b"b a", b"c"])
    return tmp_path / "state"


def replay(state_dir: Path, to: Path, *options: str) -> Result:
    asked = ["replay", str(WORD_COUNT), str(to), "--state-dir", str(state_dir), *options]
    return CliRunner().invoke(main, asked)


def test_all_messages_have_the_outputs_that_they_had(state_dir: Path, tmp_path: Path) -> None:
    done = replay(state_dir, tmp_path / "again")
    assert done.exit_code == 0, done.output
    expected = b"a => 1\nb => 1\na => 2\nb => 2\na => 3\nc => 1\n"
    assert (tmp_path / "again" / FILE).read_bytes() == expected
    assert (tmp_path / "again" / FILE).stat().st_mode & 0o777 == 0o600
    assert done.stderr.splitlines() == [
        "4 messages run again",
        f"6 outputs in {tmp_path / 'again' / FILE}",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--begin", "2"), b"b => 2\na => 3\nc => 1\n"),
        (("--begin", "1", "--end", "2"), b"a => 2\nb => 2\na => 3\n"),
        (("--end", "2100-01-01"), b"a => 1\nb => 1\na => 2\nb => 2\na => 3\nc => 1\n"),
    ],
)
def test_a_range_meets_the_state_from_before_it(
    state_dir: Path, tmp_path: Path, options: tuple[str, ...], expected: bytes
) -> None:
    assert replay(state_dir, tmp_path / "again", *options).exit_code == 0
    assert (tmp_path / "again" / FILE).read_bytes() == expected


def test_what_cannot_be_done_is_refused(state_dir: Path, tmp_path: Path) -> None:
    refused = replay(state_dir, tmp_path / "none", "--begin", "2100-01-01")
    assert refused.exit_code == 2
    assert "Error: no processed message is in this range; the log in " in refused.stderr
    assert " has offsets 0 to 3, from 20" in refused.stderr
    assert not (tmp_path / "none").exists()
    assert f"{state_dir} is not empty" in replay(state_dir, state_dir).stderr
    refused = replay(state_dir, tmp_path / "no" / "where")
    assert f"{tmp_path / 'no' / 'where'} cannot be written: No such file" in refused.stderr
    assert (
        "'soon' is neither an offset nor a time"
        in replay(state_dir, tmp_path / "x", "--begin", "soon").stderr
    )


TWO = """
import wallaroo


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    return data


@wallaroo.encoder
def encode(data):
    return data


def pipeline(name):
    source = wallaroo.source(name, wallaroo.TCPSourceConfig(name, "127.0.0.1", 0, decode))
    return source.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, encode))


def application_setup(args):
    return wallaroo.build_application("Two", pipeline("a/b"), pipeline("a b"))
"""


def test_sinks_whose_names_differ_in_punctuation_have_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)
    (tmp_path / "state").mkdir()
    app = str(tmp_path / "two.py")
    recorded = Recorded(tmp_path / "state", application_without_addresses(app, ()))
    recorded.run([("a/b", b"one;"), ("a b", b"two;")])
    recorded.close()
    to = tmp_path / "again"
    asked = ["replay", app, str(to), "--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert {file.name: file.read_bytes() for file in to.iterdir()} == {
        "a-b": b"one;",
        "a-b-2": b"two;",
    }
