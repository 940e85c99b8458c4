"""Pausing and resuming the run over HTTP, with the token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wallaroo.dashboard.access import TokenGate, check_change
from wallaroo.dashboard.monitor import Watch


class PauseRoutes:
    """The requests that pause and resume the run.

    Args:
        watch: Watches the run, and is told of changes.
        gate: Checks the token; None if nobody may.
    """

    def __init__(self, watch: Watch, gate: TokenGate | None) -> None:
        self._watch = watch
        self._gate = gate

    def routes(self) -> list[Route]:
        """Paths with their handlers."""
        pausing = self._watch.watched.pausing
        return [
            Route("/pause", self._change(pausing.pause), methods=["POST"]),
            Route("/resume", self._change(pausing.resume), methods=["POST"]),
        ]

    def _change(self, act: Callable[[str], bool]) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            check_change(request, self._gate)
            by = request.client.host if request.client else "the dashboard"
            changed = await run_in_threadpool(act, by)
            self._watch.poll_now()
            return JSONResponse({"changed": changed})

        return handle
