"""Requests to continue with other code: each is answered, and none outlives whoever made it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import wait_until
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.run import promotion
from wallaroo.run.promotion import Answer, Promotions, Request, promote
from wallaroo.system.lockfile import hold


class Asking(threading.Thread):
    """Makes a request, and keeps what becomes of it."""

    def __init__(self, state: Path, app: str) -> None:
        super().__init__(daemon=True)
        self._state, self._request = state, Request(app, ())
        self.told: list[object] = []
        self.start()

    def run(self) -> None:
        try:
            told = self.told.append
            answer = promote(
                self._state, self._request, lambda: told("waits"), lambda: told("taken")
            )
            told(answer)
        except RuntimeFailure as error:
            self.told.append(error)


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    """The lock of a run that has *tmp_path*."""
    held = hold(tmp_path / "lock", "stop it")
    yield held
    os.close(held)


@pytest.mark.usefixtures("lock")
def test_each_of_several_requests_is_answered(tmp_path: Path) -> None:
    run = Promotions(tmp_path)
    asking = {app: Asking(tmp_path, app) for app in ("a", "b", "c")}
    answered: list[str] = []
    while len(answered) < 3:
        request, answer = wait_until(run.next)
        answered.append(request.app)
        answer(Answer(f"not {request.app}"))
    for app, one in asking.items():
        one.join(60)
        assert one.told[-1] == Answer(f"not {app}")
    assert sorted(answered) == ["a", "b", "c"]
    run.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.usefixtures("lock")
def test_a_request_waits_for_a_run_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "_TELL_S", 0.0)
    asking = Asking(tmp_path, "a")
    wait_until(lambda: asking.told == ["waits"])
    run = Promotions(tmp_path)
    _, answer = wait_until(run.next)
    answer(Answer(None))
    asking.join(60)
    assert asking.told == ["waits", "taken", Answer(None)]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"[" * 200_000, b"\xff\xfe{", b'{"app": "x", "args": 5}', b'{"args": []}'],
    ids=["empty", "list", "deep", "no text", "no arguments", "no application"],
)
def test_what_is_no_request_has_no_effect(tmp_path: Path, content: bytes) -> None:
    run = Promotions(tmp_path)
    for name in ("left", "held"):
        (tmp_path / "promotions" / f"{name}.request").write_bytes(content)
    held = hold(tmp_path / "promotions" / "held.request", "try again")
    assert run.next() is None
    os.close(held)
    assert not list((tmp_path / "promotions").iterdir())


def test_without_a_run_nothing_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise AssertionError

    with pytest.raises(UsageError, match="no application runs with the state in"):
        promote(tmp_path, Request("a", ()), fail, fail)
    monkeypatch.setattr(promotion, "_STARTS_S", 0.0)
    held = hold(tmp_path / "lock", "stop it")  # of a gateway
    with pytest.raises(RuntimeFailure, match="takes no requests: only `wallaroo run` does"):
        promote(tmp_path, Request("a", ()), fail, fail)
    os.close(held)


def test_a_run_that_ends_answers_by_that(tmp_path: Path, lock: int) -> None:
    run = Promotions(tmp_path)
    asking = Asking(tmp_path, "a")
    _, answer = wait_until(run.next)
    wait_until(lambda: "taken" in asking.told)
    fcntl.flock(lock, fcntl.LOCK_UN)
    asking.join(60)
    assert "the run has ended before" in str(asking.told[-1])
    answer(Answer(None))  # to nobody
    assert not list((tmp_path / "promotions").iterdir())
