"""Requests to a running application to continue with other code: files in its state directory.

Only those who can write to the directory can make one. Each request is a file of its own, locked
by the process that waits for the answer: it lapses when that process ends, and leftovers have no
effect.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import structlog

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.lockfile import hold, is_held

_PLACE = "promotions"
"""Directory in the state directory, which is there while a run takes requests."""
_POLL_S = 0.05
_STARTS_S = 60.0
"""Seconds to wait for a run that is starting."""
_TELL_S = 2.0
"""Seconds after which it is said that a request waits."""

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class Request:
    """Which code is to take over."""

    app: str
    """Its directory or `.py` file, absolute."""
    args: tuple[str, ...]
    """Arguments of its `application_setup`; those of the run if there are none."""


@dataclass(frozen=True)
class Answer:
    """What became of a request."""

    problem: str | None
    """Why the run continues with its previous code; None if it has the new one."""


class Promotions:
    """Takes requests, in a run.

    Args:
        directory: Its state directory, with its log.
    """

    def __init__(self, directory: Path) -> None:
        self._place = directory / _PLACE
        self._place.mkdir(exist_ok=True)

    def next(self) -> tuple[Request, Callable[[Answer], None]] | None:
        """A request that waits, and what to call with its answer; None if there is none."""
        for file in sorted(self._place.glob("*.request")):
            if not is_held(file):  # whoever made it has gone
                file.unlink(missing_ok=True)
                continue
            taken = file.with_suffix(".taken")
            try:
                asked = json.loads(file.read_text())
                request = Request(str(asked["app"]), tuple(map(str, asked["args"])))
            except Exception as error:  # whatever is in it
                file.unlink(missing_ok=True)
                log.warning("not promoted", reason=f"{file} is not a request: {error!r}")
                continue
            file.rename(taken)
            return request, partial(_answer, taken)
        return None

    def close(self) -> None:
        """Take no more requests."""
        shutil.rmtree(self._place, ignore_errors=True)


def _answer(taken: Path, answer: Answer) -> None:
    """Answer the request that was *taken*, if somebody waits for that."""
    if not is_held(taken):
        taken.unlink(missing_ok=True)
        return
    written = taken.with_suffix(".written")
    with contextlib.suppress(OSError):  # the disk is full: it is logged besides
        written.write_text(json.dumps(asdict(answer)))
        written.rename(taken.with_suffix(".answer"))


def promote(
    state_dir: Path, request: Request, waits: Callable[[], None], taken: Callable[[], None]
) -> Answer:
    """Let the run that uses the state directory *state_dir* continue as *request* says.

    Args:
        state_dir: The state directory, with the log.
        request: What to continue with.
        waits: Called if the run does not take the request soon.
        taken: Called when it has taken it.

    Raises:
        UsageError: No run uses the directory.
        RuntimeFailure: What uses it takes no requests, or ends meanwhile.
    """
    place, lock = state_dir / _PLACE, state_dir / "lock"
    if not is_held(lock):
        msg = f"no application runs with the state in {state_dir}: start it with the new code"
        raise UsageError(msg)
    tell_at, give_up = time.monotonic() + _TELL_S, time.monotonic() + _STARTS_S
    while not place.exists():  # the run is starting
        tell_at = _told(waits, tell_at)
        if time.monotonic() > give_up or not is_held(lock):
            msg = f"what uses {state_dir} takes no requests: only `wallaroo run` does"
            raise RuntimeFailure(msg)
        time.sleep(_POLL_S)
    new = place / f"{time.time_ns()}-{uuid.uuid4()}.new"
    file = new.with_suffix(".request")
    held = hold(new, "try again")
    try:
        os.write(held, json.dumps(asdict(request)).encode())
        new.rename(file)  # it is never seen without its lock
        while file.exists():
            tell_at = _told(waits, tell_at)
            _check(lock, state_dir)
            time.sleep(_POLL_S)
        taken()
        answer = file.with_suffix(".answer")
        while not answer.exists():
            _check(lock, state_dir)
            time.sleep(_POLL_S)
        return Answer(**json.loads(answer.read_text()))
    finally:
        for suffix in (".new", ".request", ".taken", ".answer"):
            file.with_suffix(suffix).unlink(missing_ok=True)
        os.close(held)


def _told(waits: Callable[[], None], at: float) -> float:
    """Call *waits* if it is time *at*; returns when to call it next."""
    if time.monotonic() < at:
        return at
    waits()
    return float("inf")


def _check(lock: Path, state_dir: Path) -> None:
    """Check that the run has not ended.

    Raises:
        RuntimeFailure: It has.
    """
    if not is_held(lock):
        msg = (
            f"the run has ended before it could say whether it continues with the new code; "
            f"{state_dir} resumes with the code that the next start names"
        )
        raise RuntimeFailure(msg)
