"""A query that fails is started again, unless it would fail for the same reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from wallaroo.engine.spark import supervised_query
from wallaroo.engine.spark.checkpoint.damage import Diagnosis
from wallaroo.engine.spark.errors import Failure
from wallaroo.engine.spark.supervised_query import NotYet, SupervisedQuery, failure_of
from wallaroo.errors import RuntimeFailure
from wallaroo.observability.logs import Reminder
from wallaroo.system.restarts import Restarts

Worked = Callable[[], None]


class Query:
    """A query that has failed, or runs."""

    def __init__(
        self,
        failure: str | None = None,
        *,
        final: bool = False,
        damage: bool = False,
        planned: bool = False,
        no_room: bool = False,
    ) -> None:
        self._failure = (
            None if failure is None else Failure(failure, final, damage, planned, no_room)
        )

    def failure(self) -> Failure | None:
        return self._failure

    def finish_epoch(self, timeout_s: float | None = None) -> None: ...

    def stop(self) -> None: ...


def unreadable(
    reason: str, diagnosis: str, *, is_sure: bool
) -> tuple[SupervisedQuery, list[Worked]]:
    """A query that cannot read its state, for a *reason*; also what was called for each start."""
    starts: list[Worked] = []

    def start(worked: Worked) -> Query:
        starts.append(worked)
        return Query(reason, damage=True)

    engine = SupervisedQuery(
        start,
        lambda: None,
        diagnose=lambda why: Diagnosis(f"{diagnosis}{why}", is_sure),
    )
    return engine, starts


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restarts, "LONGEST_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_query_that_does_not_start_anew_at_first_is_tried_again() -> None:
    starts: Iterator[Query | None] = iter([Query("a worker died"), None, Query()])
    engines: list[SupervisedQuery] = []
    seen: list[str | None] = []

    def start(_worked: Worked) -> Query:
        query = next(starts)
        seen.extend(engine.interruption() for engine in engines)
        if query is None:
            raise BrokenPipeError
        return query

    engine = SupervisedQuery(start, lambda: None)
    engines.append(engine)
    assert engine.interruption() is None
    assert engine.failure() is None
    assert engine.interruption() == "the query restarts: a worker died"
    assert [engine.failure() for _ in range(3)] == [None] * 3
    assert seen == ["the query restarts: a worker died", "the query restarts: BrokenPipeError"]
    assert engine.interruption() is None
    assert engine.restarts == 1
    first, second = engine.last_restarts()
    assert (first.reason, second.reason) == ("a worker died", "BrokenPipeError")
    assert not list(starts)


@pytest.mark.usefixtures("at_once")
def test_a_query_that_never_starts_anew_is_given_up_with_the_reason() -> None:
    queries = iter([Query("a worker died")])
    engine = SupervisedQuery(lambda _: next(queries), lambda: None)
    told = [engine.failure() for _ in range(Restarts.MOST + 1)]
    assert told[:-1] == [None] * Restarts.MOST
    assert str(told[-1]).startswith(f"the query failed {Restarts.MOST + 1} times in a row: ")


def test_a_query_that_would_fail_again_is_not_started_anew() -> None:
    queries = iter([Query("a message was set aside", final=True)])
    engine = SupervisedQuery(lambda _: next(queries), lambda: None)
    assert engine.failure() == "a message was set aside"


def test_what_a_failure_says_does_not_decide_whether_it_is_final() -> None:
    queries = iter([Query("stopped, as --on-error asks: so says the application")])
    engine = SupervisedQuery(lambda _: next(queries), lambda: None)
    assert engine.failure() is None


@pytest.mark.usefixtures("at_once")
def test_a_query_is_not_started_anew_where_the_engine_is_gone() -> None:
    queries = iter([Query("a worker died")])
    ended = Failure("Spark's Java was killed by SIGKILL", final=True)
    engine = SupervisedQuery(lambda _: next(queries), lambda: ended)
    assert engine.failure() is None
    assert engine.failure() == ended.reason


@pytest.mark.usefixtures("at_once")
def test_a_query_that_brings_the_engine_back_is_started_anew() -> None:
    errors = [BrokenPipeError(), RuntimeFailure("there is no memory for Java")]
    starts: Iterator[Query | Exception] = iter([Query("a worker died"), *errors, Query()])

    def start(_worked: Worked) -> Query:
        if isinstance(started := next(starts), Exception):
            raise started
        return started

    engine = SupervisedQuery(start, lambda: Failure("Spark's Java was killed by SIGKILL"))
    assert [engine.failure() for _ in range(5)] == [None] * 5
    reasons = [restart.reason for restart in engine.last_restarts()]
    assert reasons == ["a worker died", "Spark's Java was killed by SIGKILL", str(errors[1])]
    assert (engine.restarts, engine.interruption()) == (1, None)


@pytest.mark.usefixtures("at_once")
def test_a_query_that_lacks_something_waits_and_counts_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_query, "_LOOK_AGAIN_S", 0.0)
    tried: list[int] = []

    def start(_worked: Worked) -> Query:
        tried.append(1)
        if len(tried) <= 2 * Restarts.MOST:
            msg = "no executor is there"
            raise NotYet(msg)
        return Query()

    engine = SupervisedQuery(start, lambda: None)
    with pytest.raises(RuntimeFailure, match="not started"):
        engine.finish_epoch()
    assert [engine.failure() for _ in range(2 * Restarts.MOST + 5)] == [None] * (
        2 * Restarts.MOST + 5
    )
    assert len(tried) == 2 * Restarts.MOST + 1
    assert engine.restarts == 0


def test_a_query_whose_gateway_is_stopped_starts_again_and_counts_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_query, "_LOOK_AGAIN_S", 0.0)
    made: list[Query] = []

    def start(_worked: Worked) -> Query:
        made.append(Query("the gateway has been stopped", planned=True))
        return made[-1]

    engine = SupervisedQuery(start, lambda: None)
    while len(made) <= 2 * Restarts.MOST:
        assert engine.failure() is None
    assert engine.restarts == 0


def test_a_query_one_of_whose_processes_finds_no_room_waits_and_counts_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_query, "_LOOK_AGAIN_S", 0.0)
    made: list[Query] = []

    def start(_worked: Worked) -> Query:
        made.append(Query("the local store failed", no_room=True))
        return made[-1]

    engine = SupervisedQuery(start, lambda: None)
    with capture_logs() as logs:
        while len(made) <= 2 * Restarts.MOST:
            assert engine.failure() is None
    assert {(log["log_level"], log["reason"]) for log in logs} == {
        ("warning", "the local store failed")
    }


def test_a_query_that_cannot_start_at_first_says_why() -> None:
    def start(_worked: Worked) -> Query:
        msg = "the state is of another version"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="another version"):
        SupervisedQuery(start, lambda: None)


def test_a_query_that_is_replaced_starts_again_at_once() -> None:
    queries = iter([Query(), Query()])
    engine = SupervisedQuery(lambda _: next(queries), lambda: None)
    engine.replace()
    assert engine.failure() is None
    assert engine.restarts == 0
    assert not list(queries)


@pytest.mark.usefixtures("at_once")
def test_a_query_that_cannot_read_its_state_is_given_up_soon_with_one_sentence() -> None:
    """Even if it publishes in between, which needs no damaged partition."""
    engine, starts = unreadable("Stream is corrupted", "a file is damaged: ", is_sure=True)
    told: list[str] = []
    for _ in range(20):
        starts[-1]()
        if (failure := engine.failure()) is not None:
            told.append(failure)
            break
    assert told == ["a file is damaged: Stream is corrupted"]
    assert len(starts) == 2


@pytest.mark.usefixtures("at_once")
def test_a_state_without_a_damaged_file_is_tried_as_often_as_anything() -> None:
    engine, starts = unreadable("it cannot be loaded", "no file is damaged, but ", is_sure=False)
    told = [failure for _ in range(20) if (failure := engine.failure()) is not None]
    assert told[0] == "no file is damaged, but it cannot be loaded"
    assert len(starts) == 1 + Restarts.MOST


@pytest.mark.usefixtures("at_once")
def test_a_query_waits_for_room_on_its_disk_and_counts_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_query, "_LOOK_AGAIN_S", 0.0)
    starts: list[Worked] = []
    full: list[str] = []

    def start(worked: Worked) -> Query:
        starts.append(worked)
        return Query("no such file" if full else None, damage=bool(full))

    full.append("the disk of /state is full")
    engine = SupervisedQuery(start, lambda: None, shortage=lambda: full[0] if full else None)
    with capture_logs() as logs:
        assert [engine.failure() for _ in range(50)] == [None] * 50
    assert len(starts) == 1
    assert (engine.lack, engine.interruption()) == (full[0], f"the query waits: {full[0]}")
    told = [(log["log_level"], log["event"], log["reason"]) for log in logs]
    assert told == [("warning", "query waits", full[0])]
    monkeypatch.setattr(Reminder, "AGAIN_S", 0.0)
    with capture_logs() as logs:
        full[0] = "the disk of /state is still full"
        assert [engine.failure() for _ in range(3)] == [None] * 3
    assert [log["reason"] for log in logs] == [full[0]] * 3
    full.clear()
    assert engine.failure() is None
    assert (len(starts), engine.lack, engine.interruption()) == (2, None, None)


def test_a_damaged_file_that_a_worker_finds_ends_the_query_at_once() -> None:
    found = failure_of("Traceback …\nwallaroo.errors.DamagedFile: bucket 3 is old\n\n\tat java …")
    assert (found.reason, found.final) == ("bucket 3 is old", True)
