"""Decorators of steps that are called for many messages at a time: async and batched steps.

They are for computations that mostly wait, such as requests to a service, or that cost less for
many messages at once, such as a model.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Literal, TypeVar

from wallaroo.api.durations import AnyDuration, duration_ns, positive_ns, seconds
from wallaroo.api.functions import AnyComputation, Decorated, In_contra, Result_co
from wallaroo.api.integers import integer
from wallaroo.api.retries import Retries
from wallaroo.errors import WallarooParameterError

In = TypeVar("In")
"""Type of an incoming message."""
Result = TypeVar("Result")
"""Type of an outgoing message, or None."""
ResultList = TypeVar("ResultList", bound=Iterable[Any])
"""Type of the results for a list of messages."""

DEFAULT_CONCURRENCY = 100
"""Calls of an async step at a time: the default number of connections of HTTP clients (httpx,
aiohttp)."""
MAX_CONCURRENCY = 100_000
"""More would only take memory."""
DEFAULT_TIMEOUT = seconds(30)
"""Time limit of a call: half of the default of `--function-timeout`, within which a service that
answers at all has answered."""
DEFAULT_BATCH = 64
"""Maximum number of messages of a call; beyond it, models gain little."""
MAX_BATCH = 1_000_000
"""More than a chunk of the journal can hold."""
LONGEST_WAIT_NS = 60_000_000_000
"""Longest time to wait for messages, by which outputs are late."""


class AsyncComputation(
    AnyComputation[In_contra, Coroutine[Any, Any, Result_co]], Generic[In_contra, Result_co]
):
    """A stateless coroutine function from one message to at most one message.

    Attributes:
        concurrency: Calls at a time in each worker process.
        timeout_ns: Time limit of a call, in nanoseconds.
    """

    multi = False

    def __init__(
        self,
        function: Callable[[In_contra], Coroutine[Any, Any, Result_co]],
        name: str,
        retry: Retries | None,
        concurrency: int,
        timeout_ns: int,
    ) -> None:
        super().__init__(function, name, retry)
        self.concurrency = concurrency
        self.timeout_ns = timeout_ns


class BatchComputation(Decorated[[list[In_contra]], Result_co], Generic[In_contra, Result_co]):
    """A stateless function from many messages to as many results.

    Attributes:
        name: Name of the step in logs, metrics and errors.
        retry: When to try again; None for never.
        max: Maximum number of messages of a call.
        wait_ns: Longest time for which a message waits for others, in nanoseconds.
    """

    def __init__(
        self,
        function: Callable[[list[In_contra]], Result_co],
        name: str,
        retry: Retries | None,
        max: int,  # noqa: A002
        wait_ns: int,
    ) -> None:
        super().__init__(function)
        self.name = name
        self.retry = retry
        self.max = max
        self.wait_ns = wait_ns


def computation_async(
    name: str,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    timeout: AnyDuration = DEFAULT_TIMEOUT,
    retry: Retries | None = None,
) -> Callable[[Callable[[In], Coroutine[Any, Any, Result]]], AsyncComputation[In, Result]]:
    """Declare a stateless computation with `async def`: one message in, one message or None out.

    While it waits for one message, it is called for others. Outputs keep the order of messages.

    Args:
        name: Name of the step.
        concurrency: Calls at a time in each worker process. The default is the number of
            connections that HTTP clients open by default.
        timeout: Time limit of each call: a timedelta, or the result of `seconds` or a similar
            function. A call that takes longer is cancelled, and counts as one that raised
            `TimeoutError`. The default is 30 seconds.
        retry: When to try again after an exception, from `retries`; None for never. The time limit
            applies to each attempt.

    Raises:
        TypeError: An argument has another type.
        WallarooParameterError: The number or the time limit is out of range, or the latter has no
            unit.

    Example:
        >>> import asyncio
        >>> @computation_async(name="ask", concurrency=20)
        ... async def ask(question: str) -> str:
        ...     await asyncio.sleep(0.001)
        ...     return question.upper()
        >>> asyncio.run(ask("why?"))
        'WHY?'
    """
    _check_number("concurrency", concurrency, MAX_CONCURRENCY)
    timeout_ns = positive_ns("timeout", timeout)
    return lambda function: AsyncComputation(function, name, retry, concurrency, timeout_ns)


def computation_batch(
    name: str,
    *,
    max: int = DEFAULT_BATCH,  # noqa: A002 - what it is called in other systems, too
    wait: AnyDuration | Literal[0] = 0,
    retry: Retries | None = None,
) -> Callable[[Callable[[list[In]], ResultList]], BatchComputation[In, ResultList]]:
    """Declare a stateless computation of a list of messages, which returns a result for each.

    The results are in the order of the messages; None emits nothing for a message. If it raises, or
    returns another number of results, it is called again with halves of the list, down to the
    messages on which it fails alone, which become dead letters.

    Args:
        name: Name of the step.
        max: Maximum number of messages in the list.
        wait: How long to wait for this many messages from the sources: a timedelta, or the result
            of `milliseconds` or a similar function. By default, the step does not wait.
        retry: When to try again after an exception, from `retries`; None for never.

    Raises:
        TypeError: An argument has another type.
        WallarooParameterError: A number is out of range, or the wait has no unit.

    Example:
        >>> @computation_batch(name="score", max=32)
        ... def score(texts: list[str]) -> list[int]:
        ...     return [len(text) for text in texts]
        >>> score(["to", "be"])
        [2, 2]
    """
    _check_number("max", max, MAX_BATCH)
    wait_ns = duration_ns("wait", wait)
    if not 0 <= wait_ns <= LONGEST_WAIT_NS:
        msg = f"the wait is {wait_ns} ns; it must be at least 0 and at most 60 s"
        raise WallarooParameterError(msg)
    return lambda function: BatchComputation(function, name, retry, max, wait_ns)


def _check_number(what: str, number: Any, most: int) -> None:
    if not 1 <= integer(what, number) <= most:
        msg = f"{what} is {number}; it must be at least 1 and at most {most:,}"
        raise WallarooParameterError(msg)
