"""Dead letters over HTTP: whoever can look can read them; to replay and to drop takes a token."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter

_LISTED = 50
"""Letters that are listed, and chosen at a time: the last ones."""
_SHOWN_BYTES = 4096
"""Bytes of a payload that are shown; all of it can be saved."""


class DeadLetterPages:
    """What is asked about dead letters.

    Args:
        desk: Where they are.
        token: Who shows it may replay and drop; with None, nobody.
    """

    def __init__(self, desk: DeadLetterActions, token: str | None) -> None:
        self._desk = desk
        self._token = token

    def routes(self) -> list[Route]:
        """Paths, and what answers there."""
        acts = (("replay", self._desk.replay_letters), ("drop", self._desk.drop_letters))

        def changing(act: Any) -> Any:
            async def answer(request: Request) -> Response:
                self._check(request)
                choice = Choice(await _numbers(request))
                return JSONResponse({"count": await run_in_threadpool(act, choice)})

            return answer

        return [
            Route("/dead-letters", self._list),
            Route("/dead-letters/{number:int}", self._show),
            Route("/dead-letters/{number:int}/payload", self._payload),
            *(
                Route(f"/dead-letters/{name}", changing(act), methods=["POST"])
                for name, act in acts
            ),
        ]

    async def _list(self, _request: Request) -> Response:
        found = await run_in_threadpool(self._desk.letters, Choice(), _LISTED)
        return JSONResponse([_told(letter) for letter in reversed(found)])

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
        found = await run_in_threadpool(self._desk.letters, Choice((number,)), 1)
        if not found or found[0].payload is None:
            raise HTTPException(404, f"there is no payload of a dead letter {number}")
        return found[0].payload

    def _check(self, request: Request) -> None:
        if self._token is None:
            raise HTTPException(403, "the dashboard is read-only: it was started without a token")
        shown = request.headers.get("Authorization", "").encode("latin-1")
        if not hmac.compare_digest(shown, f"Bearer {self._token}".encode()):
            told = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "the token is not the dashboard's", headers=told)


async def _numbers(request: Request) -> tuple[int, ...]:
    try:
        asked = await request.json()
    except ValueError:
        asked = None
    if (
        not isinstance(asked, list)
        or not 0 < len(asked) <= _LISTED
        or not all(type(number) is int for number in asked)
    ):
        raise HTTPException(400, f"a list of 1 to {_LISTED} numbers of dead letters is due")
    return tuple(asked)


def _told(letter: DeadLetter) -> dict[str, Any]:
    """All but the payload, in seconds."""
    told = {
        name: value
        for name, value in vars(letter).items()
        if name not in {"payload", "set_aside_ns", "arrived_ns"}
    }
    return told | {"at": letter.set_aside_ns / 1e9, "replayable": letter.payload is not None}
