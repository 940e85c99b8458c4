"""The entities of a running application over HTTP, as of a position that is published."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wallaroo.dashboard.json_responses import finite, json_response
from wallaroo.wire.look_ups import MOST_ON_PAGE, LookUp

_BATCH = 200
"""Keys that are looked up together."""
_KEY_CHARACTERS = 4_000
"""Characters of a key or prefix, as text, at most."""
OF_KEY, OF_PAGE = {"literal"}, {"prefix", "limit", "after"}
"""Parameters of a look-up of one key, and of a page."""
_LITERAL = {None: False, "false": False, "true": True}

Results = Sequence[dict[str, Any]]
"""See `wallaroo.wire.look_ups.merged`."""


class StateRoutes:
    """The requests that concern state.

    Args:
        look_up: Looks entities up in the run.
        states: Returns the names of the application's states.
    """

    def __init__(
        self, look_up: Callable[[Sequence[LookUp]], Results], states: Callable[[], Collection[str]]
    ) -> None:
        self._look_up, self._states = look_up, states
        self._waiting: deque[tuple[LookUp, asyncio.Future[dict[str, Any]]]] = deque()
        """Look-ups of keys that are asked for next."""
        self._calling: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        """Paths with their handlers."""
        return [Route("/state", self._in_all), Route("/state/{rest:path}", self._in_one)]

    async def _in_all(self, request: Request) -> Response:
        """The entities of a key in all states."""
        found = await self.of_key(LookUp(None, _checked(request.query_params.get("key", ""))))
        return json_response(finite({"entities": found["found"], "position": found["position"]}))

    async def _in_one(self, request: Request) -> Response:
        """The entity of a key, or a page of entities; names may contain any characters, quoted."""
        state, slash, key = request.scope["raw_path"][len(b"/state/") :].partition(b"/")
        name = _text(state)
        if name not in (states := self._states()):
            has = ", ".join(map(repr, states)) or "none"
            raise HTTPException(404, f"there is no state {name!r:.200}; the application has {has}")
        parameters = request.query_params
        if unknown := set(parameters) - (OF_KEY if slash else OF_PAGE):
            known = ", ".join(sorted(OF_KEY if slash else OF_PAGE))
            raise HTTPException(400, f"unknown parameter {min(unknown)!r:.200}; known: {known}")
        if slash:
            return await self._entity(name, _checked(_text(key)), parameters.get("literal"))
        asked = LookUp(
            name,
            prefix=_checked(parameters.get("prefix", "")),
            after=parameters.get("after"),
            most=_limit(parameters.get("limit", "100")),
        )
        (page,) = await run_in_threadpool(self._look_up, [asked])
        entities = page.pop("found")
        return json_response(finite({"entities": entities, **page}))

    async def _entity(self, state: str, key: str, literal: str | None) -> Response:
        if literal not in _LITERAL:
            raise HTTPException(400, f"literal is 'true' or 'false', not {literal!r:.200}")
        result = await self.of_key(LookUp(state, key, _LITERAL[literal]))
        position = result["position"]
        if not result["found"]:
            msg = f"state {state!r} has no entity of the key {key!r:.200}, as of offset {position}"
            raise HTTPException(404, msg, {"Wallaroo-Position": str(position)})
        entity = result["found"][0]
        if (problem := entity.get("error")) is not None:
            raise HTTPException(500, f"state {state!r}, key {key!r:.200}: {problem}")
        return json_response(finite(entity))

    async def of_key(self, asked: LookUp) -> dict[str, Any]:
        """Look one key up, together with others that come while the ones before are under way."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, result))
        if self._calling is None or self._calling.done():
            self._calling = asyncio.create_task(self._call())
        found: dict[str, Any] = await result
        return found

    async def _call(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            try:
                results = await run_in_threadpool(self._look_up, [asked for asked, _ in batch])
            except Exception as error:  # whatever it is, all who wait are to know
                for _, result in batch:
                    if not result.done():
                        result.set_exception(error)
                continue
            for (_, result), found in zip(batch, results, strict=True):
                if not result.done():
                    result.set_result(found)


def _text(quoted: bytes) -> str:
    try:
        return unquote_to_bytes(quoted).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"{quoted[:200]!r} is not text in UTF-8") from error


def _checked(text: str) -> str:
    if len(text) > _KEY_CHARACTERS:
        raise HTTPException(400, f"a key has at most {_KEY_CHARACTERS:,} characters here")
    return text


def _limit(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text[:9]) <= MOST_ON_PAGE):
        raise HTTPException(400, f"limit is a number from 1 to {MOST_ON_PAGE:,}, not {text!r:.200}")
    return int(text)
