"""Async and batched steps whose messages kill, block or damage their process."""

from __future__ import annotations

import asyncio
import builtins
import os
import signal
import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import chunks
from wallaroo.dataflow.call_timeout import INTERRUPT
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.isolation import run_isolated
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.steps.event_loop import run_on_loop
from wallaroo.resolution.application import resolve

LIMIT_S = 1.0
KILLED = "SkippedCall: the call killed its process (SIGKILL)"
decode = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)


@wallaroo.once_per_worker
async def owner() -> int:
    """The process on whose loop it lives: a copy must not use that of the process it is one of."""
    await asyncio.sleep(0)
    return os.getpid()


async def ask(text: str) -> str:
    assert await owner() == os.getpid()
    await asyncio.sleep(0.01)
    match text:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill from a task":
            await asyncio.create_task(_kill())
        case "block":
            signal.pthread_sigmask(signal.SIG_BLOCK, {INTERRUPT})
            time.sleep(3600)
        case "interrupt":
            raise KeyboardInterrupt
        case "fork":
            if os.fork() == 0:
                return "child"
            os.wait()
        case "late":
            await asyncio.sleep(3600)
    await asyncio.sleep(0.01)
    return text


async def _kill() -> None:
    await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def run(step: Any, texts: Sequence[str]) -> tuple[bytes, list[tuple[int | None, str]]]:
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).to(step)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))
    made = resolve(wallaroo.build_application("isolated", source.to_sink(sink)))
    ((block,),) = chunks(made, [("p", text.encode()) for text in texts], [0] * len(texts))
    results = TaskResults()
    run_isolated(Program(made, 1), results, LIMIT_S, lambda p, r: Router(p, r).route(block))
    outputs, tally = results.take()
    letters = [(letter.arrival, letter.error) for letter in tally.letters]
    return b" ".join(one.data for one in outputs), letters


@pytest.mark.parametrize("concurrency", [1, 3, 100])
def test_the_calls_that_end_their_process_are_skipped_and_the_others_go_on(
    concurrency: int,
) -> None:
    step = wallaroo.computation_async(
        name="ask", concurrency=concurrency, timeout=wallaroo.milliseconds(300)
    )(ask)
    texts = ["one", "kill", "two", "interrupt", "block", "six", "late", "fork", "kill", "end"]
    outputs, letters = run(step, texts)
    assert outputs == b"onetwosixend"
    fork = "SkippedCall: the call forked its process and also returned in the child process"
    assert letters == [
        (1, KILLED),
        (3, "KeyboardInterrupt"),
        (4, "SkippedCall: the call took longer than 1 s"),
        (6, "TimeoutError: the call took longer than its timeout, 0.3 s"),
        (7, fork),
        (8, KILLED),
    ]


def test_a_call_whose_task_ends_the_process_is_found_by_making_calls_one_at_a_time() -> None:
    step = wallaroo.computation_async(name="ask")(ask)
    outputs, letters = run(step, ["one", "kill from a task", "two", "kill", "end"])
    assert outputs == b"onetwoend"
    assert letters == [(1, KILLED), (3, KILLED)]


def test_a_loop_of_the_process_is_not_used_in_its_copies() -> None:
    step = wallaroo.computation_async(name="ask")(ask)
    assert asyncio.run(ask("before")) == "before"
    assert run(step, ["one"])[0] == b"one"
    assert run(step, ["one", "kill"])[0] == b"one"
    assert run(step, ["two"])[0] == b"two"


class _Shouting(socketserver.StreamRequestHandler):
    """Answers each line in upper case."""

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line.upper())


@pytest.fixture
def service() -> Iterator[tuple[str, int]]:
    """The address of a service."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Shouting) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()


def test_a_connection_is_kept_between_chunks_and_not_used_in_copies_of_the_process(
    service: tuple[str, int],
) -> None:
    writers: list[asyncio.StreamWriter] = []

    @wallaroo.once_per_worker
    async def connection() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Lock]:
        reader, writer = await asyncio.open_connection(*service)
        writers.append(writer)
        return reader, writer, asyncio.Lock()

    async def shout(text: str) -> str:
        reader, writer, lock = await connection()
        async with lock:
            writer.write(text.encode() + b"\n")
            answer = await reader.readline()
        if text == "kill" and len(writers) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer.decode().strip()

    step = wallaroo.computation_async(name="shout")(shout)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).to(step)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))
    made = resolve(wallaroo.build_application("kept", source.to_sink(sink)))
    texts = ["a", "kill", "b", "c"]
    for isolates, due in ((False, b"AKILLBC"), (True, b"ABC"), (False, b"AKILLBC")):
        ((block,),) = chunks(made, [("p", text.encode()) for text in texts], [0] * 4)
        results = TaskResults()
        if isolates:
            run_isolated(
                Program(made, 1),
                results,
                LIMIT_S,
                lambda p, r, of=block: Router(p, r).route(of),  # type: ignore[misc]
            )
        else:
            Router(Program(made, 1), results).route(block)
        outputs, _ = results.take()
        assert b"".join(one.data for one in outputs) == due
    assert len(writers) == 1, "the copies have opened their own"
    run_on_loop(_close(writers[0]))


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def test_a_message_that_ends_the_process_in_a_batch_is_found() -> None:
    def score(texts: list[str]) -> list[str]:
        if "kill" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return texts

    outputs, letters = run(wallaroo.computation_batch(name="score")(score), ["a", "kill", "b"])
    assert (outputs, letters) == (b"ab", [(1, KILLED)])


def test_a_call_that_stops_the_loop_by_damage_is_found_among_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def damage(text: str) -> str:
        await asyncio.sleep(0.01)
        if text == "damage":
            builtins.len = lambda _: 0
        await asyncio.sleep(0.01)
        return text

    step = wallaroo.computation_async(name="ask", timeout=wallaroo.milliseconds(50))(damage)
    real = builtins.len
    monkeypatch.setattr("wallaroo.dataflow.steps.awaiting._GRACE_S", 0.2)
    try:
        outputs, letters = run(step, ["one", "damage", "two"])
    finally:
        builtins.len = real
    assert outputs == b"onetwo"
    assert letters == [
        (
            1,
            "SkippedCall: the call replaced a part of Python, or a module, that its process needs",
        )
    ]
