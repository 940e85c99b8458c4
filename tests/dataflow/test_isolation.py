"""Messages on which user code kills its process, or does not return: found, and set aside."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import chunks
from tests.helpers import MISBEHAVING, PATIENCE_S
from wallaroo.dataflow.buckets import Bucket, Changes
from wallaroo.dataflow.call_timeout import INTERRUPT, CallTimeout
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.process_health import note_connections
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve

LIMIT_S = 1.0


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(payload: bytes) -> str:
    if payload == b"killing":
        os.kill(os.getpid(), signal.SIGKILL)
    return payload.decode()


@wallaroo.computation(name="careful")
def careful(text: str) -> str:
    if text == "exiting":
        os._exit(3)
    if text == "leaving":
        os._exit(0)
    if text == "becoming":
        os.execv(sys.executable, [sys.executable, "-c", ""])
    if text == "forking":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    if text == "quitting":
        sys.exit(0)
    if text == "odd":
        raise asyncio.CancelledError(text)
    if text == "blocking":
        signal.pthread_sigmask(signal.SIG_BLOCK, {INTERRUPT})
        time.sleep(3600)
    return text


class Seen:
    def __init__(self) -> None:
        self.texts: list[str] = []


@wallaroo.state_computation(name="note")
def note(text: str, seen: Seen) -> tuple[str, bool]:
    seen.texts.append(text)
    if text == "crashing":
        signal.raise_signal(signal.SIGTERM)
    return text, True


def application() -> Application:
    builder = wallaroo.ApplicationBuilder("isolated")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to(careful)
    builder.to_state_partition(note, Seen, "seen", wallaroo.partition(len))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    return resolve(builder.build())


def test_the_messages_that_end_their_process_are_set_aside_and_the_others_go_on() -> None:
    made = application()
    program = Program(made, 1)
    texts = ["one", "killing", "two", "exiting", "blocking", "six", "crashing", "ten", "odd", "end"]
    sent = [("p", text.encode()) for text in texts]
    ((block,),) = chunks(made, sent, [0] * len(sent))
    results = TaskResults()
    (packed,) = run_isolated(program, results, LIMIT_S, lambda p, r: Router(p, r).route(block))
    bucket = Bucket([{}])
    run_isolated(
        program, results, LIMIT_S, lambda p, r: StateRunner(p, r).run([packed.blob], 0, bucket)
    )
    outputs, tally = results.take()
    assert b"".join(one.data for one in outputs) == b"onetwosixtenend"
    assert [(letter.step, letter.arrival, letter.error) for letter in tally.letters] == [
        ("decoder", 1, "SkippedCall: the call killed its process (SIGKILL)"),
        ("careful", 3, "SkippedCall: the call ended its process (exit code 3)"),
        ("careful", 4, "SkippedCall: the call took longer than 1 s"),
        ("careful", 8, "CancelledError: odd"),
        ("note", 6, "SkippedCall: the call killed its process (SIGTERM)"),
    ]
    state = {key: entity.texts for key, entity in bucket.entities[0].items()}
    assert state == {3: ["one", "two", "six", "ten", "end"], 8: []}


def test_messages_that_use_up_the_memory_are_set_aside_and_what_they_took_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wallaroo.system.memory.available_bytes", lambda: 400 << 20)
    made = ApplicationRef(str(MISBEHAVING), ("--in", "h:1", "--out", "h:2")).load()
    sent = [("Texts", text) for text in (b"a", b"grow in the decoder", b"a grow", b"b grow", b"a")]
    ((block,),) = chunks(made, sent, [0] * len(sent))
    results = TaskResults()
    program = Program(made, 1)
    (packed,) = run_isolated(program, results, 0, lambda p, r: Router(p, r).route(block))
    bucket = Bucket([{}])
    run_isolated(program, results, 0, lambda p, r: StateRunner(p, r).run([packed.blob], 0, bucket))
    outputs, tally = results.take()
    letters = tally.letters
    assert b"".join(one.data for one in outputs) == b"a 1\na 2\n"
    told = "MemoryError: the call takes more than the 300 MiB it may"
    assert [(letter.step, letter.error) for letter in letters] == [
        ("decoder", told),
        ("add", told),
        ("add", told),
    ]
    assert len(bytes(310 << 20)) == 310 << 20  # nothing is limited afterwards


def endless(text: str) -> str:
    while text == "endless":
        try:
            time.sleep(0.001)
        except Exception:
            continue
    return text


def alarming(text: str) -> str:
    """Limits its own time, as the usual decorators do."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 60)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    return endless(text)


@pytest.mark.parametrize("function", [endless, alarming], ids=["a_loop", "one_with_an_alarm"])
def test_a_function_that_does_not_return_is_interrupted(function: Callable[[str], str]) -> None:
    builder = wallaroo.ApplicationBuilder("endless")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to(wallaroo.computation(name="endless")(function))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    made = resolve(builder.build())
    sent = [("p", text) for text in (b"a", b"endless", b"b")]
    ((block,),) = chunks(made, sent, [0] * len(sent))
    results = TaskResults()
    patience = CallTimeout(LIMIT_S)
    patience.start()
    try:
        Router(Program(made, 1), results).route(block)
    finally:
        patience.stop()
    (letter,) = results.tally.letters
    assert (letter.error, letter.arrival) == ("CallTimedOut: the call took longer than 1 s", 1)
    assert letter.place.startswith("test_isolation.py:")


def slow(text: str) -> str:
    time.sleep(0.06)
    return text


def test_what_goes_on_is_not_interrupted() -> None:
    patience = CallTimeout(0.5)
    patience.start()
    try:
        builder = wallaroo.ApplicationBuilder("slow")
        builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
        builder.to(wallaroo.computation(name="slow")(slow))
        builder.done()
        made = resolve(builder.build())
        sent = [("p", b"a")] * 12
        ((block,),) = chunks(made, sent, [0] * len(sent))
        results = TaskResults()
        Router(Program(made, 1), results).route(block)
    finally:
        patience.stop()
    assert results.tally.set_aside == 0
    assert signal.getsignal(INTERRUPT) is signal.SIG_DFL


def test_only_a_copy_that_says_so_has_got_through() -> None:
    made = application()
    texts = ["one", "leaving", "becoming", "forking", "quitting", "end"]
    ((block,),) = chunks(made, [("p", text.encode()) for text in texts], [0] * len(texts))
    results = TaskResults()
    (packed,) = run_isolated(
        Program(made, 1), results, LIMIT_S, lambda p, r: Router(p, r).route(block)
    )
    _, tally = results.take()
    assert [(letter.arrival, letter.error) for letter in tally.letters] == [
        (1, "SkippedCall: the call ended its process (exit code 0)"),
        (2, "SkippedCall: the call ended its process (exit code 0)"),
        (3, "SkippedCall: the call forked its process and also returned in the child process"),
        (4, "SystemExit: 0"),
    ]
    bucket = Bucket([{}])
    StateRunner(Program(made, 1), results).run([packed.blob], 0, bucket)
    assert [one.texts for one in bucket.entities[0].values()] == [["one", "end"]]


def isolated_and_saved(application: Application, texts: Sequence[str]) -> tuple[bytes, int]:
    """Run *texts* in isolation and save the state; all outputs, and how many were set aside."""
    program = Program(application, 1)
    sent = [(application.sources[0].name, text.encode()) for text in texts]
    ((block,),) = chunks(application, sent, [0] * len(sent))
    results = TaskResults()
    blobs = [packed.blob for packed in Router(program, results).route(block)]
    serializer = EntitySerializer([partition.name for partition in program.partitions])
    bucket = serializer.read([])

    def run(program: Program, results: TaskResults) -> Changes:
        return StateRunner(program, results, 1).run(blobs, 0, bucket)

    saves = Saves(Saving(serializer, bucket), lambda changes: changes)
    serializer.record(run_isolated(program, results, LIMIT_S, run, saves))
    outputs, tally = results.take()
    return b"".join(of.data for of in outputs), tally.set_aside


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "a lock", "a deep", "a", "b", "b exit", "b", "b", "a become another program"],
        ["a", "a exit", "a lock", "b", "a deep", "b", "a", "b"],
    ],
)
def test_messages_that_spoil_an_entity_do_not_hide_which_message_ends_its_process(
    texts: list[str],
) -> None:
    reference = ApplicationRef(str(MISBEHAVING), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))
    outputs, set_aside = isolated_and_saved(reference.load(), texts)
    assert sorted(outputs.splitlines()) == [b"a 1", b"a 2", b"b 1", b"b 2", b"b 3"]
    assert set_aside == sum(len(text) > 1 for text in texts)


@wallaroo.state_computation(name="fork or spoil")
def fork_or_spoil(text: str, seen: Seen) -> tuple[str, bool]:
    seen.texts.append(text)
    if text.endswith("fork") and (child := os.fork()):
        os.waitpid(child, 0)
    if text.endswith("spoil"):
        seen.texts.append(threading.Lock())  # type: ignore[arg-type]
    return text, True


def test_messages_that_fork_and_messages_that_spoil_leave_the_others_alone() -> None:
    builder = wallaroo.ApplicationBuilder("forking")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(fork_or_spoil, Seen, "seen", wallaroo.partition(itemgetter(0)))
    builder.to(wallaroo.computation(name="after")(str))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    kinds = ["fine", "fork", "fine", "spoil", "fine", "fork", "fork", "fine", "spoil", "fine"]
    texts = [f"{'abc'[n % 3]} {n} {kind}" for n, kind in enumerate(kinds)]
    outputs, set_aside = isolated_and_saved(resolve(builder.build()), texts)
    fine = [text for text in texts if text.endswith("fine")]
    assert outputs == "".join(fine).encode()
    assert set_aside == len(texts) - len(fine)


def _replace_struct() -> None:
    sys.modules["struct"] = object()  # type: ignore[assignment]


def _close_all() -> None:
    os.closerange(3, 1000)


def _fork_twice() -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif os.fork():
        os._exit(0)


DAMAGING: dict[str, Callable[[], object]] = {
    "close all descriptors": _close_all,
    "replace a module": _replace_struct,
    "replace pack": lambda: setattr(struct, "pack", None),
    "replace dumps": lambda: setattr(pickle, "dumps", lambda *_: b""),
    "delete len": lambda: delattr(builtins, "len"),
    "replace all": lambda: setattr(builtins, "all", lambda _: True),
    "delete BaseException": lambda: delattr(builtins, "BaseException"),
    "clear the modules": sys.modules.clear,
    "replace the modules": lambda: setattr(sys, "modules", {}),
    "replace exit": lambda: setattr(os, "_exit", print),
}
CONNECTION = "the call closed or replaced a connection or a file of its process, or wrote to it"
PYTHON = "the call replaced a part of Python, or a module, that its process needs"
FORKED = "the call forked its process and also returned in the child process"


@wallaroo.computation(name="damage")
def damage(text: str) -> str:
    DAMAGING.get(text, lambda: None)()
    return text


def damaging(function: Any) -> Application:
    builder = wallaroo.ApplicationBuilder("damaging")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to(function)
    builder.to_state_partition(note, Seen, "seen", wallaroo.partition(itemgetter(0)))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    return resolve(builder.build())


def route_isolated(made: Application, texts: Sequence[str]) -> list[tuple[int | None, str]]:
    """Route *texts* in isolation; the messages set aside, and why."""
    ((block,),) = chunks(made, [("p", text.encode()) for text in texts], [0] * len(texts))
    results = TaskResults()
    run_isolated(Program(made, 1), results, LIMIT_S, lambda p, r: Router(p, r).route(block))
    _, tally = results.take()
    return [(letter.arrival, letter.error) for letter in tally.letters]


def test_a_copy_that_stands_still_before_its_first_call_is_waited_for() -> None:
    made, owner = application(), os.getpid()
    ((block,),) = chunks(made, [("p", b"one"), ("p", b"killing")], [0] * 2)
    results = TaskResults()

    def run(program: Program, results: TaskResults) -> None:
        if os.getpid() != owner:
            threading.Event().wait(2 * LIMIT_S / 10)
        Router(program, results).route(block)

    run_isolated(Program(made, 1), results, LIMIT_S / 10, run)
    _, tally = results.take()
    assert [letter.arrival for letter in tally.letters] == [1]


def test_the_messages_that_damage_their_process_are_set_aside_and_the_others_go_on() -> None:
    texts = ["one", *DAMAGING, "two"]
    why = [CONNECTION, *[PYTHON] * (len(DAMAGING) - 1)]
    expected = [(number, f"SkippedCall: {reason}") for number, reason in enumerate(why, 1)]
    assert route_isolated(damaging(damage), texts) == expected


def test_what_a_call_does_to_a_connection_is_found_and_does_not_reach_the_other_side() -> None:
    ours, other = socket.socketpair()

    @wallaroo.computation(name="touch")
    def touch(text: str) -> str:
        if text == "write":
            os.write(ours.fileno(), b"garbage")
        if text == "shut down":
            ours.shutdown(socket.SHUT_RDWR)
        if text == "close":
            os.close(ours.fileno())
        if text == "replace":
            os.dup2(1, ours.fileno())
        if text == "fork twice":
            _fork_twice()
        return text

    note_connections([ours.fileno()])
    with ours, other:
        deeds = ["write", "shut down", "close", "replace"]
        found = route_isolated(damaging(touch), ["a", *deeds, "fork twice", "b"])
        assert found == [
            *((number, f"SkippedCall: {CONNECTION}") for number in (1, 2, 3, 4)),
            (5, f"SkippedCall: {FORKED}"),
        ]
        ours.send(b"x")
        assert other.recv(100) == b"x"


def test_a_forked_process_cannot_write_to_connections() -> None:
    ours, other = socket.socketpair()
    note_connections([ours.fileno()])
    with ours, other:
        child = os.fork()
        if not child:
            with contextlib.suppress(OSError):
                ours.send(b"as if nothing had happened")
            os._exit(0)
        os.waitpid(child, 0)
        ours.send(b"x")
        assert other.recv(100) == b"x"


def test_a_forked_process_cannot_write_to_copies_of_connections() -> None:
    ours, other = socket.socketpair()
    note_connections([ours.fileno()])
    copied = os.dup(ours.fileno())
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            os.write(copied, b"as if nothing had happened")
        os._exit(0)
    os.waitpid(child, 0)
    os.write(copied, b"x")
    assert other.recv(100) == b"x"
    os.close(copied)
    for end in (ours, other):
        end.close()


def test_a_forked_process_that_returns_into_the_engine_ends_and_delivers_nothing() -> None:
    results = TaskResults()
    results.adder(0)(b"an output")
    for ends in (results.settle, results.take):  # what runs messages does it at their end
        child = os.fork()
        if not child:
            ends()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    ((_, _, data),), _ = results.take()
    assert data == b"an output"


def test_a_forked_process_can_stop_the_limit_for_calls() -> None:
    patience = CallTimeout(PATIENCE_S)
    patience.start()
    try:
        child = os.fork()
        if not child:
            patience.stop()
            os._exit(0)
        ended, _, _ = select.select([os.pidfd_open(child)], [], [], PATIENCE_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert ended
    finally:
        patience.stop()


def test_calls_that_change_what_the_process_does_not_need_are_left_alone(tmp_path: Path) -> None:
    opened: list[Any] = []

    @wallaroo.computation(name="harmless")
    def harmless(text: str) -> str:
        if text == "exiting":
            os._exit(1)  # so that later copies look closely
        if opened:
            opened.pop().close()
        else:
            opened.append((tmp_path / "log").open("w"))
        vars(builtins)["_"] = str
        sys.modules.pop("colorsys", None)
        import colorsys  # noqa: F401

        return text

    found = route_isolated(damaging(harmless), ["a", "b", "exiting", "c", "d"])
    assert found == [(2, "SkippedCall: the call ended its process (exit code 1)")]
