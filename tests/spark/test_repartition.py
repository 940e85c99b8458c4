"""Another number of partitions: all that was counted before counts on, on every level."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.harness import Authority
from tests.helpers import COUNTING, free_address
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from tests.spark.in_process import InProcess
from wallaroo.engine.realtime.checkpoint import note_begun, place_of
from wallaroo.engine.spark.checkpoint.epochs import last_commit, last_epoch
from wallaroo.engine.spark.checkpoint.partitions import is_needed, repartition
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

SOURCE = "Texts"


def texts(start: int) -> list[bytes]:
    return [b"%c%d" % (97 + n % 5, n % 37) for n in range(start, start + 200)]


def by_initial(outputs: list[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[output[:1]].append(output)
    return found


def test_state_counts_on_in_more_and_in_fewer_partitions(
    on_spark: InProcess, tmp_path: Path
) -> None:
    arguments = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")
    sent: list[tuple[str, bytes]] = []
    for turn, partitions in enumerate((2, 4, 3)):
        if turn:
            assert is_needed(tmp_path / "checkpoint", partitions)
            repartition(on_spark.session, tmp_path / "checkpoint", partitions)
            assert last_epoch(tmp_path / "checkpoint")[1:] == (True, partitions)
        more = [(SOURCE, payload) for payload in texts(len(sent))]
        sent += more
        made = on_spark.run(
            ApplicationRef(str(COUNTING), arguments),
            more,
            workers=partitions,
            directory=tmp_path,
            buckets=16,
        )
        oracle = simulate(load(COUNTING), sent)
        assert by_initial(made.by_sink[SOURCE]) == by_initial(oracle.outputs)


def call(
    state: Path, partitions: int, app: Path = APPS / "word_count", options: Sequence[str] = ()
) -> tuple[int, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "wallaroo", "repartition", str(app)),
            *("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"),
            *("--state-dir", str(state), "--partitions", str(partitions), *options),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_command_changes_a_state_directory_or_says_why_not(tmp_path: Path) -> None:
    state = tmp_path / "state"
    code, said = call(state, 4)
    assert (code, "there is no directory" in said) == (2, True), said
    state.mkdir()
    code, said = call(state, 4)
    assert (code, "contains no state yet" in said) == (0, True), said
    assert list(state.iterdir()) == []

    lines = [b"%c %c" % (97 + n % 26, 97 + 5 * n % 26) for n in range(40)]
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, state) as running:
        send(running.sources["Split and Count"], lines)
        before = receiver.wait_for(2 * len(lines))
        code, said = call(state, 3)
        assert (code, "stop it" in said) == (1, True), said
        assert running.stop() == 0
    code, said = call(state, 3)
    assert code == 0, said
    assert last_epoch(state / "checkpoint")[1:] == (True, 3)

    for partitions, expected, reason in [
        (3, 0, "divided into 3 partitions already"),
        (17, 2, "choose 16 or fewer"),
    ]:
        code, said = call(state, partitions)
        assert (code, reason in said) == (expected, True), said
    unfinished = shutil.copytree(state, tmp_path / "unfinished")
    number = last_epoch(unfinished / "checkpoint")[0]
    (unfinished / "checkpoint" / "commits" / str(number)).unlink()
    code, said = call(unfinished, 2)
    assert code == 1
    assert "start the application once more with its 3 partitions" in said

    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, state) as running:
        send(running.sources["Split and Count"], lines)
        after = receiver.wait_for(2 * len(lines))
        assert running.stop() == 0
    words = Counter(word for line in lines for word in line.split())
    assert Counter(before + after) == Counter(
        b"%s => %d\n" % (word, n + 1) for word in words for n in range(2 * words[word])
    )


@contextmanager
def started(*arguments: str) -> Iterator[BackgroundRun]:
    """A command that has said that it is ready."""
    command = BackgroundRun(arguments)
    try:
        command.wait_for_event("ready", PATIENCE_S)
        yield command
    finally:
        command.process.kill()
        command.process.wait()


def test_an_epoch_that_a_killed_driver_has_left_is_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALLAROO_PACE", "epoch_least_s=600")
    app = Path(shutil.copy(COUNTING, tmp_path))
    state, token = tmp_path / "state", tmp_path / "token"
    token.write_text(secrets.token_hex(16))
    door = free_address()
    authority = Authority(tmp_path, "authority")
    files = authority.files()
    tls = ("--listen-tls-cert", str(files.certificate), "--listen-tls-key", str(files.key))
    to_door = ("--gateway", door, "--gateway-ca", str(authority.file))
    sent = [*texts(0), *texts(200)]
    with Receiver("lines") as receiver:
        shared = (str(app), "--in", "127.0.0.1:0", "--out", receiver.address)
        kept = ("--token-file", str(token), "--state-dir")
        with started(
            "gateway",
            *shared,
            *kept,
            str(tmp_path / "gateway"),
            "--listen",
            door,
            *tls,
            *("--chunks-port", "0"),
        ) as gateway:
            source = gateway.wait_for_event("ready", 0)["sources"][SOURCE]
            driver = ("driver", *shared, *kept, str(state), *to_door)
            local = ("--master", "local[2]", "--partitions")
            with started(*driver, *local, "2") as killed:
                send(source, sent[:200])
                receiver.wait_for(200)
                killed.process.kill()

            code, said = call(state, 4, app)
            assert (code, "was not stopped cleanly" in said) == (1, True), said
            code, said = call(state, 4, app, (*to_door, "--token-file", str(token)))
            assert code == 0, said
            assert last_epoch(state / "checkpoint")[1:] == (True, 4)

            # a driver that is killed before it publishes anything leaves no more than a mark
            checkpoint = state / "checkpoint"
            note_begun(checkpoint, place_of(checkpoint, last_commit(checkpoint)))
            code, said = call(state, 3, app, (*to_door, "--token-file", str(token)))
            assert code == 0, said
            assert last_epoch(checkpoint)[1:] == (True, 3)
            with started(*driver, *local, "3"):
                send(source, sent[200:])
                outputs = receiver.wait_for(len(sent), 3 * PATIENCE_S)  # Spark starts once more
    oracle = simulate(load(app), [(SOURCE, payload) for payload in sent])
    assert by_initial(outputs) == by_initial(oracle.outputs)
