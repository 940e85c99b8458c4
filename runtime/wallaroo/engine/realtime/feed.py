"""Reports of the gateway to the driver of a real-time query."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import structlog

from wallaroo.engine.spark.errors import Failure
from wallaroo.errors import RuntimeFailure
from wallaroo.observability.logs import Reminder
from wallaroo.wire.channel import connect
from wallaroo.wire.chunk_messages import (
    FAILED,
    FINISH,
    HELLO,
    HOLD,
    PUBLISHED,
    RELEASE,
    SAVABLE,
    Hello,
    News,
    json_in,
    news_in,
    pack_json,
)
from wallaroo.wire.look_ups import ANSWERS, Answers, LookUp, answers_in, merged, pack_ask

_MEANWHILE = "are processed, and kept in the log"
_GONE = "the gateway has cut off the query"
NO_QUERY = "the application is starting, or being started again: try again"
_NO_ANSWER = (
    "the processes of the application do not answer: a step, or the end of an epoch, takes long"
)
_ANSWER_S = 10.0
"""Time for a look-up: longer than Spark usually takes to commit an epoch."""
_MOST_QUESTIONS = 100
"""Look-ups that wait for their answers at a time."""
_LOOK_S = 1.0
"""Pause between looks whether the state can be saved."""
_SLOW = "the query does not come to the end of an epoch"

log = structlog.get_logger("wallaroo")


class Feed:
    """A connection to the gateway, for the driver of a query.

    Args:
        address: The gateway's address for `connect`.
        hello: Which query it is.
        on_news: Called, in a thread, with what was published since the last call.
        lack: Returns why the state cannot be saved now, or None; may take long.

    Raises:
        OSError: The gateway is not there.
    """

    def __init__(
        self,
        address: str | Path,
        hello: Hello,
        on_news: Callable[[News], None],
        lack: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._frames = connect(str(address))
        self._frames.send(pack_json(HELLO, hello))
        self._on_news, self._lack = on_news, lack
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._asked = self._done = 0
        """Requests to end an epoch: made, and answered."""
        self._questions: dict[int, Future[Answers | None]] = {}
        """Look-ups that are under way, by number; None is the answer if the query is away."""
        self._numbers = itertools.count(1)
        self._failure: Failure | None = None
        threading.Thread(target=self._receive, name="feed", daemon=True).start()

    @property
    def failure(self) -> Failure | None:
        """Why the gateway has cut off the query; None while it has not."""
        return self._failure

    def finish_epoch(self, timeout_s: float | None = None) -> None:
        """Wait until Spark has the state as of all chunks that are published.

        Args:
            timeout_s: How long at most.

        Raises:
            RuntimeFailure: The query failed before, or it took too long.
        """
        with self._changed:
            self._asked += 1
            number = self._asked
        with contextlib.suppress(OSError):  # reported below
            self._frames.send(pack_json(FINISH, number))
        with self._changed:
            self._changed.wait_for(
                lambda: self._done >= number or self._failure is not None, timeout_s
            )
            if self._done < number:
                raise RuntimeFailure(_SLOW if self._failure is None else self._failure.reason)

    def look_up(self, asked: Sequence[LookUp]) -> list[dict[str, Any]]:
        """The entities that are *asked* for; see `merged`.

        Raises:
            RuntimeFailure: The query is not there, or does not answer.
        """
        answers = Future[Answers | None]()
        with self._changed:
            if len(self._questions) >= _MOST_QUESTIONS:
                msg = f"{_MOST_QUESTIONS} look-ups are under way: try again"
                raise RuntimeFailure(msg)
            if self._failure is not None:
                raise RuntimeFailure(NO_QUERY)
            number = next(self._numbers)
            self._questions[number] = answers
        try:
            with contextlib.suppress(OSError):  # noticed by `_receive`
                self._frames.send(*pack_ask(number, asked))
            found = answers.result(_ANSWER_S)
        except TimeoutError:
            raise RuntimeFailure(_NO_ANSWER) from None
        finally:
            with self._changed:
                self._questions.pop(number, None)
        if found is None:
            raise RuntimeFailure(NO_QUERY)
        return merged(asked, found)

    def hold(self) -> None:
        """Let the gateway hand out no more chunks."""
        with contextlib.suppress(OSError):  # the query has failed
            self._frames.send(HOLD)

    def release(self) -> None:
        """Let the gateway hand out chunks again."""
        with contextlib.suppress(OSError):  # the query has failed
            self._frames.send(RELEASE)

    def close(self) -> None:
        """Close the connection."""
        self._closed.set()
        self._frames.close()

    def _receive(self) -> None:
        failure = Failure(_GONE)
        try:
            while (frame := self._frames.receive()) is not None:
                kind = frame[:1]
                if kind == PUBLISHED:
                    self._on_news(news_in(frame))
                elif kind == FINISH:
                    with self._changed:
                        self._done = json_in(frame)
                        self._changed.notify_all()
                elif kind == ANSWERS:
                    self._answer(*answers_in(frame))
                elif kind == SAVABLE:
                    threading.Thread(target=self._grant, name="savable", daemon=True).start()
                elif kind == FAILED:
                    failure = Failure(**json_in(frame))
        except OSError:
            pass  # it is gone
        with self._changed:
            self._failure = failure
            self._changed.notify_all()
            for number in list(self._questions):
                self._answer(number, None)

    def _grant(self) -> None:
        """Let the epoch end once the state can be saved."""
        reminder = Reminder()
        while (lack := self._lack()) is not None:
            if reminder.show(lack):
                log.warning("epoch does not end", reason=lack, messages=_MEANWHILE)
            if self._closed.wait(_LOOK_S):
                return
        if reminder.reason:
            log.info("epochs end again")
        with contextlib.suppress(OSError):  # the query has failed
            self._frames.send(SAVABLE)

    def _answer(self, number: int, found: Answers | None) -> None:
        with self._changed:
            question = self._questions.pop(number, None)
        if question is not None:
            question.set_result(found)
