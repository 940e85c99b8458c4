"""Key histories over HTTP: the command that shows one, and its output for users with the token.

The command runs code of the application again, with its side effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wallaroo.dashboard.access import TokenGate, check_change
from wallaroo.dashboard.json_responses import json_response
from wallaroo.dashboard.look_ups import KEY_CHARACTERS
from wallaroo.gateway.dead_letters.store import DeadLetter
from wallaroo.gateway.explaining import Explainer, Explaining, key_argument, of_letter

log = structlog.get_logger("wallaroo.dashboard")


class HistoryRoutes:
    """The requests that concern histories.

    Args:
        explaining: Returns how the run, as it is now, is explained.
        ask_gateway: Returns the history of a key of a run whose log is elsewhere.
        gate: Checks the token of who asks for a history; None if nobody may.
        shows_args: Whether commands have the arguments of the application, which may be secret.
    """

    def __init__(
        self,
        explaining: Callable[[], Explaining],
        ask_gateway: Callable[[str], dict[str, str]],
        gate: TokenGate | None,
        *,
        shows_args: bool,
    ) -> None:
        self._explaining, self._gate, self._shows_args = explaining, gate, shows_args
        self._ask_gateway, self._explainer = ask_gateway, Explainer(explaining)

    def routes(self) -> list[Route]:
        """Paths with their handlers."""
        return [
            Route("/history", self._command, methods=["GET"]),
            Route("/history", self._history, methods=["POST"]),
        ]

    def stop(self) -> None:
        """End what is running."""
        self._explainer.stop()

    def described(self) -> dict[str, Any]:
        """The command for late messages, and whether histories can be shown."""
        here, shows = self._explaining().is_here, self._gate is not None
        return {"late": self._written(["--late"]), "here": here, "shows": shows}

    def of_letter(self, letter: DeadLetter) -> str | None:
        """The command for the key of a dead letter; None if that is not known."""
        asked = of_letter(letter)
        return None if asked is None else self._written(asked)

    def _written(self, asked: list[str]) -> str:
        return self._explaining().command(asked, shows_args=self._shows_args)

    async def _command(self, request: Request) -> Response:
        return json_response({"command": self._written([_key_of(request)])})

    async def _history(self, request: Request) -> Response:
        check_change(request, self._gate)
        key = _key_of(request)
        by = request.client.host if request.client else "the dashboard"
        log.info("history asked for", key=key, by=by)
        if self._explaining().is_here:
            return json_response(await run_in_threadpool(self._explainer.run, [key]))
        return json_response(await run_in_threadpool(self._ask_gateway, key))


def _key_of(request: Request) -> str:
    key = request.query_params.get("key", "")
    if not 0 < len(key) <= KEY_CHARACTERS or "\0" in key:
        raise HTTPException(
            400, f"a key has 1 to {KEY_CHARACTERS:,} characters here, none of them NUL"
        )
    return key_argument(key)
