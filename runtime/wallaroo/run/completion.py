"""Completion of a run with --until-done, which its sources tell."""

from __future__ import annotations

from wallaroo.gateway.internal_api.status import GatewayStatus, SourceStatus

_MAX_FAILURES = 5
"""Consecutive failures of a source after which nothing more is expected of it."""


def is_done(status: GatewayStatus, read: str | None) -> bool:
    """Whether nothing more comes of the sources, and all that has come is delivered.

    Args:
        status: The gateway's status.
        read: The source whose standard input has been read to its end; None if there is none.
    """
    failed = any(map(_cannot_continue, status.sources))  # then others may wait for it for good
    ended = all(
        source.ended or source.name == read or _cannot_continue(source) or (failed and source.waits)
        for source in status.sources
    )
    return ended and not (status.backlog or status.undelivered or status.waits_for_time)


def problem_of_sources(status: GatewayStatus) -> str | None:
    """Why sources will not end, or have ended early; None if none has."""
    problems = [
        f"source {source.name!r} ({source.where}) cannot continue: {source.problem}"
        for source in status.sources
        if _cannot_continue(source)
    ]
    return "; ".join(problems) or None


def _cannot_continue(source: SourceStatus) -> bool:
    if source.ended:
        return source.problem is not None
    return source.failures >= _MAX_FAILURES
