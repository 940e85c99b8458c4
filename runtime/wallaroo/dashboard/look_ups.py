"""The entities of a running application over HTTP, as of a position that is published."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple
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
_PAGES = 2
"""Pages that are made at a time."""
_PATIENCE_S = 1.0
"""Seconds after which it is worth a look whether somebody still waits."""
KEY_CHARACTERS = 4_000
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
        self._waiting: deque[_Waiting] = deque()
        """Look-ups of keys that are asked for next."""
        self._pages = asyncio.Semaphore(_PAGES)
        self._calling: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        """Paths with their handlers."""
        in_one = Route("/state/{rest:path}", self._in_one)
        in_one.path_regex = re.compile(in_one.path_regex.pattern, re.DOTALL)  # keys have any lines
        return [Route("/state", self._in_all), in_one]

    async def _in_all(self, request: Request) -> Response:
        """The entities of a key in all states."""
        _check(request, {"key"})
        key = _checked(request.query_params.get("key", ""))
        found = await self.of_key(LookUp(None, key), request)
        return json_response(finite({"entities": found["found"], "position": found["position"]}))

    async def _in_one(self, request: Request) -> Response:
        """The entity of a key, or a page of entities; names may contain any characters, quoted."""
        state, slash, key = request.scope["raw_path"][len(b"/state/") :].partition(b"/")
        name = _text(state)
        if name not in (states := self._states()):
            has = ", ".join(map(repr, states)) or "none"
            raise HTTPException(404, f"there is no state {name!r:.200}; the application has {has}")
        parameters = request.query_params
        _check(request, OF_KEY if slash else OF_PAGE)
        if slash:
            return await self._entity(name, _checked(_text(key)), request)
        asked = LookUp(
            name,
            prefix=_checked(parameters.get("prefix", "")),
            after=parameters.get("after"),
            most=_limit(parameters.get("limit", "100")),
        )
        async with self._pages:
            (page,) = await run_in_threadpool(self._look_up, [asked])
        entities = page.pop("found")
        return json_response(finite({"entities": entities, **page}))

    async def _entity(self, state: str, key: str, request: Request) -> Response:
        literal = request.query_params.get("literal")
        if literal not in _LITERAL:
            raise HTTPException(400, f"literal is 'true' or 'false', not {literal!r:.200}")
        result = await self.of_key(LookUp(state, key, _LITERAL[literal]), request)
        position = result["position"]
        if not result["found"]:
            msg = f"state {state!r} has no entity of the key {key!r:.200}, as of offset {position}"
            raise HTTPException(404, msg, {"Wallaroo-Position": str(position)})
        entity = result["found"][0]
        if (problem := entity.get("error")) is not None:
            raise HTTPException(500, f"state {state!r}, key {key!r:.200}: {problem}")
        return json_response(finite(entity))

    async def of_key(self, asked: LookUp, request: Request) -> dict[str, Any]:
        """Look one key up, together with others that come while the ones before are under way."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(asked, request, time.monotonic(), result))
        if self._calling is None or self._calling.done():
            self._calling = asyncio.create_task(self._call())
        found: dict[str, Any] = await result
        return found

    async def _call(self) -> None:
        while batch := await self._next_batch():
            try:
                results = await run_in_threadpool(self._look_up, [one.asked for one in batch])
            except Exception as error:  # whatever it is, all who wait are to know
                for one in batch:
                    one.settle(error)
                continue
            for one, found in zip(batch, results, strict=False):
                one.settle(found)
            self._waiting.extendleft(reversed(batch[len(results) :]))

    async def _next_batch(self) -> list[_Waiting]:
        """Look-ups that somebody still waits for."""
        batch = list[_Waiting]()
        while self._waiting and len(batch) < _BATCH:
            one = self._waiting.popleft()
            waited_s = time.monotonic() - one.since
            if waited_s > _PATIENCE_S and await one.request.is_disconnected():
                one.settle(HTTPException(503, "nobody waits for the answer"))
            else:
                batch.append(one)
        return batch


class _Waiting(NamedTuple):
    """A look-up that waits for its answer."""

    asked: LookUp
    request: Request
    since: float
    result: asyncio.Future[dict[str, Any]]

    def settle(self, found: dict[str, Any] | Exception) -> None:
        """Answer it, unless its request was cancelled."""
        if self.result.done():
            return
        if isinstance(found, Exception):
            self.result.set_exception(found)
        else:
            self.result.set_result(found)


def _check(request: Request, known: Collection[str]) -> None:
    """Refuse parameters that are not *known*."""
    if unknown := set(request.query_params) - set(known):
        names = ", ".join(sorted(known))
        raise HTTPException(400, f"unknown parameter {min(unknown)!r:.200}; known: {names}")


def _text(quoted: bytes) -> str:
    try:
        return unquote_to_bytes(quoted).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"{quoted[:200]!r} is not text in UTF-8") from error


def _checked(text: str) -> str:
    if len(text) > KEY_CHARACTERS:
        raise HTTPException(400, f"a key has at most {KEY_CHARACTERS:,} characters here")
    return text


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_ON_PAGE):
        raise HTTPException(400, f"limit is a number from 1 to {MOST_ON_PAGE:,}, not {text!r:.200}")
    return int(text)
