"""Where `now` and `rng` are called: what is one call, and where there is no message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import Driven
from wallaroo.dataflow.guards import guarded
from wallaroo.dataflow.isolated_calls import Calls
from wallaroo.dataflow.savable import SkippedCall
from wallaroo.errors import ApplicationError, RuntimeFailure
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import Simulation, at, simulate
from wallaroo.wire.records import Block

S = 10**9


def application(*steps: Any, decode: Callable[[bytes], Any] = bytes.decode) -> Application:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decode)
    pipeline: Any = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    for step in steps:
        pipeline = pipeline.to(step)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    return resolve(wallaroo.build_application("App", pipeline.to_sink(sink)))


def simulated(*steps: Any) -> Simulation:
    return simulate(application(*steps), [("in", b"a", S), ("in", b"b", 2 * S)])


def driven(*steps: Any, guard: Callable[[Application], Application] = lambda one: one) -> Driven:
    made = Driven(guard(application(*steps)))
    frames = [Block(n, 1, 0, (n + 1) * S, b"\0\0\0\1" + b) for n, b in enumerate((b"a", b"b"))]
    made.batch([frames])
    return made


def test_a_call_has_one_generator_and_another_call_another() -> None:
    @wallaroo.computation(name="draw")
    def draw(_message: str) -> tuple[float, float]:
        return wallaroo.rng().random(), wallaroo.rng().random()

    @wallaroo.computation(name="draw")
    def again(drawn: tuple[float, float]) -> Any:
        return sorted({*drawn, wallaroo.rng().random()})

    found = [eval(output) for output in simulated(draw, again).outputs]
    assert len({number for drawn in found for number in drawn}) == 6
    assert found == [eval(output) for output in driven(draw, again).outputs["in"]]


def test_outputs_of_a_message_have_generators_of_their_own() -> None:
    @wallaroo.computation_multi(name="twice")
    def twice(message: str) -> Iterator[str]:
        yield message
        yield message

    @wallaroo.computation(name="draw")
    def draw(_message: str) -> float:
        return wallaroo.rng().random()

    found = simulated(twice, draw).outputs
    assert len(set(found)) == 4
    assert found == driven(twice, draw).outputs["in"]


def test_an_attempt_after_the_first_has_the_same_numbers() -> None:
    fails = {"a": 2, "b": 0}
    drawn: list[float] = []

    @wallaroo.computation(name="draw", retry=wallaroo.retries(3, backoff=0))
    def draw(message: str) -> float:
        drawn.append(wallaroo.rng().random())
        if fails[message]:
            fails[message] -= 1
            raise ConnectionError
        return drawn[-1]

    outputs = driven(draw).outputs["in"]
    assert len(drawn) == 4
    assert len(set(drawn)) == 2
    assert outputs == simulated(draw).outputs


def test_an_async_step_knows_the_time_of_its_message_also_in_a_notebook() -> None:
    @wallaroo.computation_async(name="ask", concurrency=2)
    async def ask(message: str) -> Any:
        await asyncio.sleep(0.001 if message == "a" else 0)
        return message, wallaroo.now().second

    async def notebook() -> Simulation:
        return simulated(ask)

    @wallaroo.computation(name="tell")
    def tell(message: str) -> Any:
        return message, wallaroo.now().second

    async def with_another_step() -> Simulation:
        return simulated(tell)

    expected = [b"('a', 1)", b"('b', 2)"]
    assert driven(ask).outputs["in"] == simulated(ask).outputs == expected
    assert asyncio.run(notebook()).outputs == expected
    assert asyncio.run(with_another_step()).outputs == expected


def test_calls_that_are_skipped_do_not_shift_the_times_of_others() -> None:
    @wallaroo.computation_async(name="ask", concurrency=2)
    async def ask(message: str) -> Any:
        return message, wallaroo.now().second

    calls = Calls({3: SkippedCall("it kills its worker")})  # after two of the decoder

    def guard(one: Application) -> Application:
        return guarded(one, calls.guard, None, calls.guard_gathering)

    assert driven(ask, guard=guard).outputs["in"] == [b"('b', 2)"]


async def in_task() -> Any:
    return wallaroo.now()


@wallaroo.computation_async(name="draws in async")
async def draws_in_async(_message: str) -> Any:
    return wallaroo.rng()


@wallaroo.computation_async(name="starts a task")
async def starts_a_task(_message: str) -> Any:
    return await asyncio.create_task(in_task())


@wallaroo.computation(name="runs tasks")
def runs_tasks(_message: str) -> Any:
    async def draw() -> float:
        await asyncio.sleep(0)
        return wallaroo.rng().random()

    async def draw_several() -> list[float]:
        return [*await asyncio.gather(draw(), draw())]

    return asyncio.run(draw_several())


@wallaroo.computation(name="runs a task")
def runs_a_task(_message: str) -> Any:
    return asyncio.run(in_task())


@wallaroo.computation(name="runs a callback")
def runs_a_callback(_message: str) -> Any:
    async def call() -> Any:
        called: asyncio.Future[Any] = asyncio.Future()

        def ask() -> None:
            try:
                called.set_result(wallaroo.now())
            except RuntimeError as error:
                called.set_exception(error)

        asyncio.get_running_loop().call_soon(ask)
        return await called

    return asyncio.run(call())


@wallaroo.computation(name="runs another loop's task")
def runs_another_loops_task(_message: str) -> Any:
    in_task().send(None)  # as trio does


@wallaroo.computation_batch(name="batch", max=2)
def in_batch(messages: list[str]) -> list[Any]:
    return [wallaroo.now() for _ in messages]


@wallaroo.computation(name="starts a thread")
def starts_a_thread(_message: str) -> None:
    raised: list[Exception] = []

    def ask() -> None:
        try:
            wallaroo.now()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    raise raised[0]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (draws_in_async, "wallaroo.rng is for the message .* async step have no order: call it in"),
        (starts_a_task, "a task or thread that a function has started belongs to no message"),
        (runs_tasks, "wallaroo.rng .* a task or thread that a function has started belongs to no"),
        (runs_a_task, "a task or thread that a function has started belongs to no message"),
        (runs_a_callback, "a task or thread that a function has started belongs to no message"),
        (runs_another_loops_task, "a task or thread that a function has started belongs to no"),
        (starts_a_thread, "a task or thread that a function has started belongs to no message"),
        (
            in_batch,
            "wallaroo.now is for the message .* a batch is not a single message: call it in",
        ),
    ],
)
def test_where_there_is_no_message_an_error_says_so(step: Any, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        raise simulated(step).set_aside[0][3]
    failed = driven(step).tally.examples
    assert failed
    assert all("is for the message that is processed, and" in one.error for one in failed)


saved: list[str] = []


class Stamped:
    def __init__(self) -> None:
        self.text = "new"

    def __getstate__(self) -> dict[str, Any]:
        saved.append(str(wallaroo.now()))
        return {"text": saved[-1]}


def test_what_is_saved_has_no_message() -> None:
    @wallaroo.state_computation(name="keep", state=Stamped)
    def keep(message: str, _state: Stamped) -> str:
        return message

    pipeline: Any = wallaroo.source(
        "in",
        wallaroo.TCPSourceConfig(
            "", 0, wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
        ),
    )
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    keyed = pipeline.key_by(wallaroo.key_extractor(str)).to(keep).to_sink(sink)
    made = wallaroo.build_application("App", keyed)
    saved.clear()
    (letter,) = simulate(made, [("in", b"a")]).set_aside
    assert not saved
    assert "saved, loaded or migrated" in str(letter[3])
    with pytest.raises(RuntimeFailure, match="saved, loaded or migrated"):
        Driven(resolve(made)).batch([[Block(0, 1, 0, S, b"\0\0\0\1a")]])


@pytest.mark.parametrize("ask", [wallaroo.now, lambda: wallaroo.rng().random()])
def test_a_repeatable_decoder_must_not_ask(ask: Callable[[], Any]) -> None:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)(
        lambda _bytes: str(ask())
    )
    pipeline: Any = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    made = wallaroo.build_application("App", pipeline.to_sink(sink))
    with pytest.raises(ApplicationError, match="two calls return different messages"):
        simulate(made, [("in", b"a")])


def test_outside_of_a_run_there_are_the_clock_and_other_numbers_each_time() -> None:
    before = datetime.now(UTC)
    assert before <= wallaroo.now() <= datetime.now(UTC)
    assert wallaroo.rng().random() != wallaroo.rng().random()


def test_a_test_sets_time_and_seed() -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    with at(noon, seed=7):
        first = wallaroo.rng().random(), wallaroo.rng().random()
        assert wallaroo.now() == noon
        with at(5 * S):
            assert wallaroo.now().second == 5
        assert wallaroo.now() == noon
    with at(noon, seed=7):
        assert (wallaroo.rng().random(), wallaroo.rng().random()) == first
    with pytest.raises(TypeError, match="without a time zone"), at(datetime(2026, 11, 30)):
        pass
