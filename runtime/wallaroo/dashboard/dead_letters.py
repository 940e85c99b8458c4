"""Dead letters over HTTP: all who may view the dashboard can read them; changes need a token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wallaroo.connectors.kafka.stored import value_of
from wallaroo.dashboard.access import TokenGate, check_change
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter

_LISTED = 50
"""Dead letters that are listed (the most recent), and that one request can change."""
_SHOWN_BYTES = 4096
"""Bytes of a payload that are shown; the download has all of it."""


class DeadLetterRoutes:
    """The requests that concern dead letters.

    Args:
        actions: Lists, replays and drops them.
        gate: Checks the token of who replays and drops; None if nobody may.
        explain: Returns the command that explains the key of one; None if that is not known.
    """

    def __init__(
        self,
        actions: DeadLetterActions,
        gate: TokenGate | None,
        explain: Callable[[DeadLetter], str | None],
    ) -> None:
        self._actions = actions
        self._gate, self._explain = gate, explain

    def routes(self) -> list[Route]:
        """Paths with their handlers."""
        return [
            Route("/dead-letters", self._list),
            Route("/dead-letters/{number:int}", self._show),
            Route("/dead-letters/{number:int}/payload", self._payload),
            Route(
                "/dead-letters/replay", self._change(self._actions.replay_letters), methods=["POST"]
            ),
            Route("/dead-letters/drop", self._change(self._actions.drop_letters), methods=["POST"]),
        ]

    def _change(self, act: Callable[[Choice], int]) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            check_change(request, self._gate)
            choice = Choice(await _numbers(request))
            return JSONResponse({"count": await run_in_threadpool(act, choice)})

        return handle

    async def _list(self, _request: Request) -> Response:
        found = await run_in_threadpool(self._actions.letters, Choice(), _LISTED)
        shown = [
            {**_without_payload(letter), "explain": self._explain(letter)}
            for letter in reversed(found)
        ]
        return JSONResponse(shown)

    async def _show(self, request: Request) -> Response:
        payload = await self._payload_of(request)
        text = payload[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        shown = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
        return JSONResponse({"bytes": len(payload), "shown": shown})

    async def _payload(self, request: Request) -> Response:
        name = f"dead-letter-{request.path_params['number']}"
        return Response(
            await self._payload_of(request),
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def _payload_of(self, request: Request) -> bytes:
        number = request.path_params["number"]
        found = await run_in_threadpool(self._actions.letters, Choice((number,)), 1)
        if not found:
            raise HTTPException(404, f"there is no dead letter {number}")
        if found[0].payload is None:
            raise HTTPException(404, f"dead letter {number} has no payload")
        return value_of(found[0].payload)


async def _numbers(request: Request) -> tuple[int, ...]:
    try:
        numbers = await request.json()
    except (ValueError, RecursionError):
        numbers = None
    if (
        not isinstance(numbers, list)
        or not 0 < len(numbers) <= _LISTED
        or not all(type(number) is int for number in numbers)
    ):
        raise HTTPException(400, f"expected a JSON list of 1 to {_LISTED} dead letter numbers")
    return tuple(numbers)


def _without_payload(letter: DeadLetter) -> dict[str, Any]:
    """*letter* as JSON, with its time in seconds."""
    fields = {
        name: value
        for name, value in vars(letter).items()
        if name not in {"payload", "set_aside_ns", "arrived_ns"}
    }
    return fields | {"at": letter.set_aside_ns / 1e9, "replayable": letter.payload is not None}
