"""Requests to a running application to go on with other code: files in its state directory.

Whoever can write there can do so, and nobody else: the directory is its user's. A request and its
answer are small JSON files, of which no process is in the way if the other one is gone.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.lockfile import is_held

_REQUEST = "promotion.json"
_POLL_S = 0.05
_TAKEN_S = 10.0
"""Seconds for a run to take a request: it looks five times a second, unless it is starting."""

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class Request:
    """Which code is to take over."""

    app: str
    """Its directory or `.py` file, absolute."""
    args: tuple[str, ...]
    """Arguments of its `application_setup`; those of the run if there are none."""
    number: str
    """Tells its answer from those to others."""


@dataclass(frozen=True)
class Answer:
    """What became of a request."""

    problem: str | None
    """Why the run goes on with the code that it had; None if it has the new one."""


class Promotions:
    """Takes requests, in a run.

    Args:
        directory: Its state directory, with its log.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._remove_leftovers()

    def next(self) -> Request | None:
        """The request that waits; None if there is none."""
        file = self._directory / _REQUEST
        try:
            text = file.read_text()
        except OSError:
            return None
        file.unlink(missing_ok=True)
        try:
            asked = json.loads(text)
            number = str(uuid.UUID(asked["number"]))
            return Request(str(asked["app"]), tuple(map(str, asked["args"])), number)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("not promoted", reason=f"{file} is not a request: {error!r}")
            return None

    def answer(self, request: Request, answer: Answer) -> None:
        """Let the one who asked know."""
        with contextlib.suppress(OSError):  # the disk is full: it is logged besides
            write_durably(_answer_to(self._directory, request.number), json.dumps(asdict(answer)))

    def close(self) -> None:
        """Take no more requests."""
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        for file in self._directory.glob("promotion*.json"):
            file.unlink(missing_ok=True)


def promote(directory: Path, app: str, args: tuple[str, ...], waits: Callable[[], None]) -> Answer:
    """Let the run that uses the state directory *directory* go on as *app*.

    Args:
        directory: The state directory, with the log.
        app: Directory or `.py` file of the new code, absolute.
        args: Arguments of its `application_setup`; none for those of the run.
        waits: Called when the run has taken the request.

    Raises:
        UsageError: No run uses the directory.
        RuntimeFailure: It does not answer, or ends meanwhile.
    """
    request = Request(app, args, str(uuid.uuid4()))
    file, answer = directory / _REQUEST, _answer_to(directory, request.number)
    lock = directory / "lock"
    if not is_held(lock):
        msg = f"no application runs with the state in {directory}: start it with the new code"
        raise UsageError(msg)
    write_durably(file, json.dumps(asdict(request)))
    give_up = time.monotonic() + _TAKEN_S
    while file.exists():
        if time.monotonic() > give_up:
            file.unlink(missing_ok=True)
            msg = (
                f"what uses {directory} takes no request: only `wallaroo run` does, once it is "
                "ready"
            )
            raise RuntimeFailure(msg)
        time.sleep(_POLL_S)
    waits()
    while not answer.exists():
        if not is_held(lock):
            msg = f"the run has ended before it was done; {directory} resumes with any start"
            raise RuntimeFailure(msg)
        time.sleep(_POLL_S)
    told = Answer(**json.loads(answer.read_text()))
    answer.unlink(missing_ok=True)
    return told


def _answer_to(directory: Path, number: str) -> Path:
    return directory / f"promotion-{number}.json"
