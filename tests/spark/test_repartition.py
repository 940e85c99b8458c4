"""Another number of partitions: all that was counted before counts on, on every level."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spark.harness import APPS, Receiver, run, send
from tests.spark.in_process import InProcess
from wallaroo.engine.spark.repartition import is_needed, last_batch, repartition
from wallaroo.model.loader import ApplicationRef
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


def test_state_counts_on_in_more_and_in_fewer_partitions(
    on_spark: InProcess, tmp_path: Path
) -> None:
    application = tmp_path / "votes.py"
    application.write_text(APPLICATION)
    arguments = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")
    sent: list[tuple[str, bytes]] = []
    for turn, partitions in enumerate((2, 4, 3)):
        if turn:
            assert is_needed(tmp_path / "checkpoint", partitions)
            repartition(on_spark.session, tmp_path / "checkpoint", partitions)
            assert last_batch(tmp_path / "checkpoint")[1:] == (True, partitions)
        more = [(SOURCE, payload) for payload in votes(len(sent))]
        sent += more
        made = on_spark.run(
            ApplicationRef(str(application), arguments),
            more,
            workers=partitions,
            directory=tmp_path,
            buckets=16,
        )
        oracle = simulate(load(application), sent)
        assert by_initial(made.by_sink["Votes"]) == by_initial(oracle.outputs)


def call(state: Path, partitions: int) -> tuple[int, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "wallaroo", "repartition", str(APPS / "word_count")),
            *("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"),
            *("--state-dir", str(state), "--partitions", str(partitions)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_command_changes_a_state_directory_or_says_why_not(tmp_path: Path) -> None:
    state = tmp_path / "state"
    code, said = call(state, 4)
    assert (code, "there is no state" in said) == (0, True), said
    assert not state.exists()

    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, state) as running:
        send(running.sources["Split and Count"], [b"one two"])
        receiver.wait_for(2)
        code, said = call(state, 4)
        assert (code, "stop it" in said) == (1, True), said
        running.stop()
    code, said = call(state, 4)
    assert code == 0, said
    assert last_batch(state / "checkpoint")[1:] == (True, 4)

    for partitions, expected, reason in [
        (4, 0, "4 partitions already"),
        (17, 2, "choose 16 or fewer"),
    ]:
        code, said = call(state, partitions)
        assert (code, reason in said) == (expected, True), said
    number = last_batch(state / "checkpoint")[0]
    (state / "checkpoint" / "commits" / str(number)).unlink()
    code, said = call(state, 2)
    assert code == 1
    assert "start the application with its 4 partitions once more" in said
