"""Async steps, held against plain Python: order, bound, time limit, retries, mishaps."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, chunks, drive_all
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.graphs.graph import graph_of
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.resolution.gathered_steps import awaits
from wallaroo.testing import simulate

Function = Callable[[Any], Coroutine[Any, Any, Any]]

decode = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
SINK = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))


class Last:
    def __init__(self) -> None:
        self.texts: list[str] = []


@wallaroo.state_computation(name="append", state=Last)
def append(text: str, last: Last) -> Last:
    last.texts.append(text)
    return last  # which the next message changes


def application(function: Function, **options: Any) -> Application:
    step = wallaroo.computation_async(name="ask", **options)(function)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))
    return resolve(wallaroo.build_application("asking", source.to(step).to_sink(SINK)))


def sent(*texts: str) -> list[tuple[str, bytes]]:
    return [("p", text.encode()) for text in texts]


def errors_of(driven: Driven) -> list[tuple[int | None, str]]:
    return [(letter.arrival, letter.error) for letter in driven.tally.letters]


class Service:
    """Answers in upper case, some later than others; counts what it is asked at a time."""

    def __init__(self, fails: Callable[[str, int], bool] = lambda _text, _attempt: False) -> None:
        self.asked: list[str] = []
        self.running = self.most = 0
        self._fails = fails

    async def ask(self, text: str) -> str | None:
        attempt = self.asked.count(text)
        self.asked.append(text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(1 + len(text) % 5):
                await asyncio.sleep(0)
            if self._fails(text, attempt):
                raise ConnectionError(text)
            return None if text.startswith("-") else text.upper()
        finally:
            self.running -= 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab-", max_size=6), st.integers(0, 3)), max_size=40),
    st.integers(1, 7),
    st.integers(0, 2),
)
def test_outputs_and_dead_letters_are_those_of_a_loop_and_calls_are_bounded(
    messages: list[tuple[str, int]], concurrency: int, times: int
) -> None:
    texts = [f"{text}{number}" for number, (text, _) in enumerate(messages)]

    def fails(text: str, attempt: int) -> bool:
        return attempt < text.count("b")

    retry = wallaroo.retries(times, backoff=0) if times else None
    service = Service(fails)
    made = application(service.ask, concurrency=concurrency, retry=retry)
    driven = drive_all(made, sent(*texts), [cut for _, cut in messages])
    fine = [text for text in texts if text.count("b") <= times]
    assert driven.outputs["p"] == [
        text.upper().encode() for text in fine if not text.startswith("-")
    ]
    assert errors_of(driven) == [
        (number, f"ConnectionError: {text}")
        for number, text in enumerate(texts)
        if text.count("b") > times
    ]
    assert service.most <= concurrency
    if texts and not any(cut for _, cut in messages):
        assert service.most == min(concurrency, len(texts))
    for text in texts:
        assert service.asked.count(text) == min(text.count("b"), times) + 1


def test_a_simulation_gives_the_same_and_does_not_pause() -> None:
    retry = wallaroo.retries(3, backoff=wallaroo.hours(24))
    service = Service(lambda text, attempt: attempt < text.count("b"))
    made = application(service.ask, retry=retry)
    simulation = simulate(made, sent("a", "bb", "bbbb", "-"))
    assert simulation.outputs == [b"A", b"BB"]
    ((pipeline, step, message, error),) = simulation.set_aside
    assert (pipeline, step, message, type(error)) == ("p", "ask", "bbbb", ConnectionError)
    assert error.__notes__ == ["attempts: 4"]


async def _odd(text: str) -> Any:
    match text:
        case "late":
            await asyncio.sleep(3600)
        case "exit":
            raise SystemExit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "base":
            raise BaseException(text)  # noqa: TRY002
        case "closed":
            raise GeneratorExit
        case "child exits":
            await asyncio.create_task(_odd("exit"))
        case "stops the loop":
            asyncio.get_running_loop().stop()
        case "runs a loop":
            sleep = asyncio.sleep(0)
            try:
                asyncio.run(sleep)
            finally:
                sleep.close()
        case "cancels itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    return text


def test_a_call_that_goes_wrong_affects_its_message_alone() -> None:
    texts = ["a", "exit", "b", "cancelled", "base", "closed", "late", "child exits"]
    texts += ["stops the loop", "c", "runs a loop", "cancels itself", "d"]
    made = application(_odd, timeout=wallaroo.milliseconds(200))
    driven = drive_all(made, sent(*texts), [0] * len(texts))
    assert driven.outputs["p"] == [b"a", b"b", b"stops the loop", b"c", b"d"]
    assert [error.partition("\n")[0] for _, error in errors_of(driven)] == [
        "SystemExit: 3",
        "CancelledError",
        "BaseException: base",
        "GeneratorExit",
        "TimeoutError: the call took longer than its timeout, 0.2 s",
        "SystemExit: 3",
        "RuntimeError: asyncio.run() cannot be called from a running event loop",
        "CancelledError",
    ]
    assert all(letter.place.startswith("test_async_steps.py:") for letter in driven.tally.letters)
    again = drive_all(made, sent("e"), [0])
    assert again.outputs["p"] == [b"e"]


async def _late(text: str) -> Any:
    if text == "forgets":
        return asyncio.sleep(0, text)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        if text == "raises":
            raise KeyError(text) from None
    return text


def test_what_a_call_does_after_its_time_limit_does_not_count() -> None:
    made = application(_late, timeout=wallaroo.milliseconds(50))
    driven = drive_all(made, sent("swallows", "raises", "forgets"), [0] * 3)
    late = "TimeoutError: the call took longer than its timeout, 0.05 s"
    assert errors_of(driven) == [
        (0, late),
        (1, late),
        (
            2,
            "TypeError: the function returned a coroutine, which nothing awaits; "
            "write return await …",
        ),
    ]
    assert not driven.outputs.get("p")


def test_a_call_that_does_not_end_when_it_is_cancelled_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wallaroo.dataflow.steps.awaiting._GRACE_S", 0.05)
    never: list[asyncio.Future[None]] = []

    async def stubborn(text: str) -> str:
        while text == "stubborn":
            never.append(asyncio.get_running_loop().create_future())
            try:
                await never[-1]
            except asyncio.CancelledError:
                continue
            return "too late"
        return text

    made = application(stubborn, timeout=wallaroo.milliseconds(50), concurrency=1)
    driven = drive_all(made, sent("a", "stubborn", "b"), [0] * 3)
    assert driven.outputs["p"] == [b"a", b"b"]
    assert errors_of(driven) == [(1, "TimeoutError: the call took longer than its timeout, 0.05 s")]
    never[-1].get_loop().call_soon(never[-1].set_result, None)
    again = drive_all(made, sent("c", "d"), [0, 0])
    assert again.outputs["p"] == [b"c", b"d"]


def test_a_timeout_is_tried_again_and_a_cancelled_call_can_clean_up() -> None:
    calls: list[str] = []

    async def slow_at_first(text: str) -> str:
        calls.append(text)
        try:
            await asyncio.sleep(3600 if calls.count(text) == 1 else 0)
        finally:
            calls.append("cleaned up")
        return text

    retry = wallaroo.retries(1, backoff=0, on=TimeoutError)
    made = application(slow_at_first, timeout=wallaroo.milliseconds(20), retry=retry)
    assert drive_all(made, sent("a"), [0]).outputs["p"] == [b"a"]
    assert calls == ["a", "cleaned up", "a", "cleaned up"]


def test_code_that_does_not_await_is_interrupted_at_the_limit_of_any_call() -> None:
    async def busy(text: str) -> str:
        if text == "in a task":
            await asyncio.create_task(busy("here"))
        while text == "here":
            pass
        await asyncio.sleep(0)
        return text

    made = application(busy)
    ((block,),) = chunks(made, sent("a", "here", "b", "in a task", "c"), [0] * 5)
    results = TaskResults()
    limit = CallTimeout(0.3)
    limit.start()
    try:
        Router(Program(made, 1), results).route(block)
    finally:
        limit.stop()
    assert [(letter.arrival, letter.error) for letter in results.tally.letters] == [
        (1, "CallTimedOut: the call took longer than 0.3 s"),
        (3, "CallTimedOut: the call took longer than 0.3 s"),
    ]
    assert results.metrics.step("p", "ask").left == 3


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # it may end before that
def test_a_function_with_a_loop_of_its_own_has_one_limit_for_all_that_runs_on_it() -> None:
    async def many() -> None:
        while True:
            await asyncio.create_task(piece())

    async def piece() -> None:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            pass

    @wallaroo.computation(name="runs a loop")
    def runs_a_loop(text: str) -> str:
        asyncio.run(many())
        return text

    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).to(runs_a_loop)
    made = resolve(wallaroo.build_application("loop", source.to_sink(SINK)))
    ((block,),) = chunks(made, sent("a"), [0])
    results = TaskResults()
    limit = CallTimeout(0.2)
    limit.start()
    try:
        Router(Program(made, 1), results).route(block)
    finally:
        limit.stop()
    (letter,) = results.tally.letters
    assert letter.error == "CallTimedOut: the call took longer than 0.2 s"
    gc.collect()  # what was never awaited, here


def test_a_message_waits_as_it_was_when_it_was_emitted() -> None:
    async def join(last: Last) -> str:
        await asyncio.sleep(0)
        return " ".join(last.texts)

    step = wallaroo.computation_async(name="join")(join)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).collect()
    made = resolve(wallaroo.build_application("join", source.to(append).to(step).to_sink(SINK)))
    messages = sent("a", "b", "c")
    driven = drive_all(made, messages, [0] * 3)
    assert driven.outputs["p"] == [b"a", b"a b", b"a b c"] == simulate(made, messages).outputs


def test_a_message_that_cannot_wait_is_set_aside_in_the_engine_and_in_a_simulation() -> None:
    made = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))

    @wallaroo.computation(name="lambda")
    def lambdas(text: str) -> Any:
        return lambda: text

    step = wallaroo.computation_async(name="ask")(_odd)
    built = resolve(wallaroo.build_application("odd", made.to(lambdas).to(step).to_sink(SINK)))
    (error,) = [error for _, error in errors_of(drive_all(built, sent("a"), [0]))]
    assert error.startswith(
        "Unsendable: a message of class function cannot wait for this step, because it cannot be "
        "pickled: "
    )
    ((_, step_name, _, raised),) = simulate(built, sent("a")).set_aside
    assert (step_name, f"Unsendable: {raised}") == ("ask", error)


def test_the_loop_and_what_is_opened_once_are_kept_between_chunks() -> None:
    opened: list[asyncio.AbstractEventLoop] = []

    @wallaroo.once_per_worker
    async def client() -> str:
        opened.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        if len(opened) == 1:
            raise ConnectionError
        return "client"

    async def ask(text: str) -> str:
        assert asyncio.get_running_loop() is (opened or [asyncio.get_running_loop()])[0]
        return f"{await client()} {text}"

    made = application(ask, retry=wallaroo.retries(1, backoff=0))
    driven = drive_all(made, sent("a", "b", "c"), [0, 0, 3])
    assert driven.outputs["p"] == [b"client a", b"client b", b"client c"]
    assert len(opened) == 2


def test_what_is_opened_once_needs_a_function_without_parameters() -> None:
    with pytest.raises(TypeError, match="once_per_worker is given plain; expected an async def"):

        @wallaroo.once_per_worker  # type: ignore[arg-type]
        def plain() -> None: ...


def test_a_simulation_runs_beside_a_running_loop_as_in_a_notebook() -> None:
    async def main() -> list[bytes]:
        return simulate(application(Service().ask), sent("a", "b")).outputs

    assert asyncio.run(main()) == [b"A", b"B"]


def test_many_more_messages_than_are_collected_at_a_time_keep_their_order() -> None:
    texts = [str(number) for number in range(9_000)]
    chosen = random.Random(1)

    async def ask(text: str) -> str:
        if chosen.random() < 0.1:
            await asyncio.sleep(0)
        return text

    driven = drive_all(application(ask, concurrency=50), sent(*texts), [0] * len(texts))
    assert [output.decode() for output in driven.outputs["p"]] == texts


def test_steps_after_each_other_and_branches_get_all_messages() -> None:
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))
    asked = source.to(wallaroo.computation_async(name="ask")(Service().ask))
    twice = asked.to(wallaroo.computation_async(name="again")(_odd))
    both = twice.merge(asked.to(wallaroo.computation(name="low")(str.lower)))
    made = resolve(wallaroo.build_application("both", both.to_sink(SINK)))
    driven = drive_all(made, sent("a", "b", "c"), [0, 0, 1])
    upper = [output for output in driven.outputs["p"] if output.isupper()]
    assert upper == [b"A", b"B", b"C"]
    assert sorted(driven.outputs["p"]) == [b"A", b"B", b"C", b"a", b"b", b"c"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=12))
def test_a_state_that_leads_back_to_itself_gets_each_message_before_the_next_one(
    messages: list[tuple[str, int]],
) -> None:
    @wallaroo.state_computation(name="note")
    def note(text: str, last: Last) -> tuple[str, bool]:
        last.texts.append(text)
        return f"{text}{len(last.texts)}", True

    service = Service()

    @wallaroo.partition
    def key(text: str) -> str:
        return text[0].lower()

    builder = wallaroo.ApplicationBuilder("back")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(note, Last, "notes", key)
    builder.to(wallaroo.computation_async(name="ask")(service.ask))
    builder.to_state_partition(note, Last, "notes", key).to_sink(SINK)
    made = resolve(builder.build())
    sends = sent(*[f"{letter}{number}" for number, (letter, _) in enumerate(messages)])
    driven = drive_all(made, sends, [cut for _, cut in messages])
    assert service.most <= 1
    due = simulate(made, sends)
    assert sorted(driven.outputs["p"]) == sorted(due.outputs)
    states = [
        {key: entity.texts for key, entity in state["notes"].items()}
        for state in (driven.state(), due.state)
    ]
    assert states[0] == states[1]


def test_context_variables_of_a_call_may_be_set() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def ask(text: str) -> str:
        variable.set(text)
        await asyncio.sleep(0)
        return variable.get()

    driven = drive_all(application(ask), sent("a", "b"), [0, 0])
    assert driven.outputs["p"] == [b"a", b"b"]


def test_the_step_is_drawn_and_counted() -> None:
    made = application(Service().ask, concurrency=1_000, retry=wallaroo.retries(2))
    (group,) = graph_of(made).groups
    details = [node.detail for node in group.nodes if node.kind == "step"]
    assert awaits(made)
    assert details == ["async, 1,000 at a time, 2 retries"]
    ((block,),) = chunks(made, sent("a", "-", "b"), [0] * 3)
    results = TaskResults()
    Router(Program(made, 1), results).route(block)
    metrics = results.metrics.step("p", "ask")
    assert (metrics.entered, metrics.left, metrics.timed) == (3, 2, 3)


class _Callable:
    async def __call__(self, text: str) -> str:
        return text.upper()

    async def method(self, text: str) -> str:
        return text.upper()


async def _joined(prefix: str, text: str) -> str:
    return f"{prefix}{text}".upper()


def _in_a_task(function: Function) -> Function:
    @functools.wraps(function)
    def call(text: Any) -> Coroutine[Any, Any, Any]:
        return function(text)

    return call


@pytest.mark.parametrize(
    "function",
    [
        _Callable(),
        _Callable().method,
        functools.partial(_joined, ""),
        _in_a_task(_Callable().method),
    ],
)
def test_whatever_gives_a_coroutine_can_be_a_step(function: Any) -> None:
    assert drive_all(application(function), sent("a", "b"), [0, 0]).outputs["p"] == [b"A", b"B"]


def test_a_wrapper_that_awaits_a_coroutine_function_is_a_plain_function() -> None:
    upper = _Callable().method

    @functools.wraps(upper)
    def joined(text: str) -> str:
        return asyncio.run(upper(text))

    step = wallaroo.computation(name="joined")(joined)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).to(step)
    made = resolve(wallaroo.build_application("joined", source.to_sink(SINK)))
    assert simulate(made, sent("a")).outputs == [b"A"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"concurrency": 0}, "concurrency is 0; it must be at least 1 and at most 100,000"),
        ({"concurrency": 2.5}, r"concurrency is 2\.5; expected an integer"),
        ({"timeout": 0}, "the timeout is 0 ns; it must be positive"),
        ({"timeout": 1.5}, r"the timeout is 1\.5, without a unit"),
    ],
)
def test_wrong_options_are_refused(options: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wallaroo.computation_async(name="ask", **options)
