"""The processor time that new code takes, and that of the old one on the same messages."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

from wallaroo.engine.stored import Committed
from wallaroo.errors import UsageError, WallarooError
from wallaroo.gateway.log.records import Record
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.history.step_times import Step, StepTimes, measured_overhead_ns
from wallaroo.model.application import Application
from wallaroo.run.user_output import limited_calls
from wallaroo.system.lifeline import die_with_parent, fork_group, kill_group
from wallaroo.user_code.exceptions import describe_error

_exit = os._exit  # user code may replace it
_TURN = 200
"""Messages that one code runs, at least, before the other runs them."""
_MOST_BYTES = 4 * 1024**2
"""Bytes of records that wait for the old code."""
_MOST_TURNS = 1_000
"""Turns that are kept; when there are more, neighbours are merged in pairs."""


class Turn(NamedTuple):
    """Messages that were run with the new code, and then with the old."""

    messages: int
    old: Counter[Step]
    """Nanoseconds by step."""
    new: Counter[Step]

    def add(self, other: Turn) -> Turn:
        """Add *other*; returns both together."""
        self.old.update(other.old)
        self.new.update(other.new)
        return self._replace(messages=self.messages + other.messages)


class Baseline:
    """Old code in a separate process, which runs the records that new code has run.

    Args:
        connection: The connection to the process.
        times: For the new code, which runs in this process.

    Attributes:
        times: Those of the new code.
        turns: What both have taken for one part of the messages after the other.
        dead_letters: How many the old code has made.
        unread: How many messages it has not run, by the name of their source, which it lacks.
        problem: Why the old code has ended early; None if it has not.

    Raises:
        UsageError: The old code cannot be loaded.
    """

    def __init__(self, connection: Connection, times: StepTimes) -> None:
        self.times = times
        self.turns: list[Turn] = []
        self.dead_letters = 0
        self.unread: dict[str, int] = {}
        self.problem: str | None = None
        self._connection = connection
        self._waiting: list[Record] = []
        """Records that the old code has not run."""
        self._bytes = 0
        self._turn = Turn(0, Counter(), Counter())
        """The turn that is not over yet."""
        self._least = _TURN
        """Messages of a turn, at least."""
        self._name = self._answer()
        if self.problem is not None:
            msg = f"--baseline: {self.problem}"
            raise UsageError(msg)

    def beside(
        self, application: Application, records: Iterable[Record], beginning: Committed | None
    ) -> Iterator[Record]:
        """Yield *records* for new code, and let the old code run them in turns.

        Args:
            application: The new code.
            records: The records.
            beginning: The state to begin with; None for what the log says.

        Raises:
            UsageError: The old code is that of another application.
        """
        if self._name != application.name:
            msg = f"--baseline: {self._name!r} is another application than {application.name!r}"
            raise UsageError(msg)
        self._ask(beginning)
        return self._in_turns(records)

    def _in_turns(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self._waiting.append(record._replace(payload=bytes(record.payload)))
            self._bytes += len(record.payload)
            yield record
            if self.times.messages >= _TURN or self._bytes >= _MOST_BYTES:
                self._hand_over()

    def finish(self) -> None:
        """Let the old code run what the new has run, all of which is over."""
        self._hand_over(is_last=True)

    def _hand_over(self, *, is_last: bool = False) -> None:
        taken, waiting = self.times.taken(), self._waiting
        self._waiting, self._bytes = [], 0
        if self.problem is None:
            self._ask(waiting)
        if self.problem is None and (answer := self._answer()) is not None:
            messages, steps, self.dead_letters, self.unread = answer
            old = Counter({(pipeline, step): ns for pipeline, step, ns in steps})
            turn = Turn(max(messages, taken[0]), old, Counter(taken[1]))
            self._turn = self._turn.add(turn)
        if self._turn.messages < (1 if is_last else self._least):
            return
        self.turns.append(self._turn)
        self._turn = Turn(0, Counter(), Counter())
        if len(self.turns) > _MOST_TURNS:
            self._least *= 2
            pairs = zip_longest(self.turns[::2], self.turns[1::2], fillvalue=self._turn)
            self.turns = [one.add(other) for one, other in pairs]

    def _ask(self, request: object) -> None:
        try:
            self._connection.send(request)
        except OSError:
            self.problem = "it ended its process"

    def _answer(self) -> Any:
        """What the old code answers; None if it has ended, and why is `problem` then."""
        try:
            answer, self.problem = json.loads(self._connection.recv_bytes())
        except (OSError, EOFError, ValueError):  # ended, or user code has written to it
            self.problem = "it ended its process"
            return None
        return answer


@contextmanager
def baseline_of(load: Callable[[], Application], limit_s: float) -> Generator[Baseline, None, None]:
    """Load the old code with *load* in a separate process, which ends with the block.

    Args:
        load: Loads it.
        limit_s: Seconds that a function may take for a message; 0 for no limit.

    Raises:
        UsageError: It cannot be loaded.
    """
    times = StepTimes(measured_overhead_ns())
    own, other = Pipe()
    process = fork_group()
    if process == 0:
        own.close()
        _be(load, limit_s, times, other)
    other.close()
    try:
        with own:
            yield Baseline(own, times)
    finally:
        kill_group(process)
        os.waitpid(process, 0)


def _be(
    load: Callable[[], Application], limit_s: float, times: StepTimes, connection: Connection
) -> NoReturn:
    """Be the process of the old code, until *connection* has no more records."""

    def answer(what: object, problem: str | None = None) -> None:
        connection.send_bytes(json.dumps([what, problem]).encode())

    try:
        die_with_parent()
        application = load()
        answer(application.name)
        beginning = connection.recv()

        def records() -> Iterator[Record]:
            while True:
                yield from connection.recv()
                messages, steps = times.taken()
                spent = [[*step, ns] for step, ns in steps.items()]
                answer([messages, spent, rehearsal.dead_letters, rehearsal.unread])

        with limited_calls(limit_s):
            rehearsal = Rehearsal(application, records(), beginning, times)
            for _ in rehearsal:
                pass
    except WallarooError as error:
        answer(None, str(error))
    except Exception as error:  # a mistake of user code where nothing of it should be
        answer(None, describe_error(error))
    finally:
        _exit(0)
