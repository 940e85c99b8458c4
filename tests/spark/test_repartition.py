"""Another number of partitions: all that was counted before counts on, on every level."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.spark.harness import Receiver, run, send
from wallaroo.cli.main import main
from wallaroo.engine.spark.repartition import last_batch
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

SOURCE = "Votes"
APPLICATION = """
import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Votes")
    builder.new_pipeline("Votes", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    builder.to_state_partition(by_name, Count, "names", name)
    builder.to_state_partition(by_initial, Count, "initials", initial)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return builder.build()


class Count:
    def __init__(self):
        self.votes = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.partition
def name(vote):
    return vote


@wallaroo.partition
def initial(counted):
    return counted[0][0]


@wallaroo.state_computation(name="by name")
def by_name(vote, count):
    count.votes += 1
    return ((vote, count.votes), True)


@wallaroo.state_computation(name="by initial")
def by_initial(counted, count):
    count.votes += 1
    return (f"{counted[0]} {counted[1]} {count.votes}\\n", True)


@wallaroo.encoder
def encode(line):
    return line.encode()
"""
"""Two levels: what is counted by name is counted again by its first letter."""


def votes(start: int) -> list[bytes]:
    return [b"%c%d" % (97 + n % 5, n % 37) for n in range(start, start + 200)]


def by_initial(outputs: list[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[output[:1]].append(output)
    return found


class Stage:
    """The application on one state directory, run now and then."""

    def __init__(self, directory: Path, receiver: Receiver) -> None:
        self.state = directory / "state"
        self._application = directory / "votes.py"
        self._application.write_text(APPLICATION)
        self._receiver = receiver
        self._sent: list[bytes] = []

    def run(self, partitions: int) -> None:
        """Send some more votes, and hold all outputs so far against the oracle."""
        payloads = votes(len(self._sent))
        self._sent += payloads
        options = ["--partitions", str(partitions)]
        with run(self._application, self._receiver, self.state, options=options) as running:
            send(running.sources[SOURCE], payloads)
            oracle = simulate(load(self._application), [(SOURCE, p) for p in self._sent])
            received = self._receiver.wait_for(len(oracle.outputs))
            running.stop()
        assert by_initial(received) == by_initial(oracle.outputs)

    def repartition(self, partitions: int) -> tuple[int, str]:
        done = CliRunner().invoke(
            main,
            [
                *("repartition", str(self._application), "--in", "127.0.0.1:0"),
                *("--out", "127.0.0.1:1", "--state-dir", str(self.state)),
                *("--partitions", str(partitions)),
            ],
        )
        return done.exit_code, done.output

    def partitions(self) -> tuple[bool, int]:
        """Whether the last batch has ended, and how many partitions it left."""
        _, committed, partitions = last_batch(self.state / "checkpoint")
        return committed, partitions


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, Receiver("lines"))


def test_state_counts_on_in_more_and_in_fewer_partitions(stage: Stage) -> None:
    stage.run(2)
    for partitions in (4, 3):
        code, said = stage.repartition(partitions)
        assert code == 0, said
        assert stage.partitions() == (True, partitions)
    stage.run(3)
    refused = [(3, 0, "3 partitions already"), (17, 2, "choose 16 or fewer")]
    for partitions, expected, reason in refused:
        code, said = stage.repartition(partitions)
        assert (code, reason in said) == (expected, True), said
    max((stage.state / "checkpoint" / "commits").iterdir(), key=_number).unlink()
    code, said = stage.repartition(4)
    assert code == 1
    assert "start the application with its 3 partitions once more" in said


def test_where_there_is_no_state_there_is_nothing_to_do(stage: Stage) -> None:
    code, said = stage.repartition(4)
    assert code == 0
    assert "there is no state" in said
    assert not stage.state.exists()


def _number(file: Path) -> int:
    return int(file.name) if file.name.isdecimal() else -1
