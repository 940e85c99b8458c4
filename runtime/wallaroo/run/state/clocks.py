"""The clocks by which states with event time measure silence, while the application does not run.

They stand still meanwhile: the log has what they showed last, and a gateway that starts continues
from there.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.checkpoint import is_new, progress_of
from wallaroo.gateway.consistency.agreement import held_by
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.numbering import Numbering
from wallaroo.gateway.reading import Reading
from wallaroo.gateway.store import Store
from wallaroo.model.application import Application
from wallaroo.model.order import meeting_sources


def shown_clocks(directory: Path, checkpoint: Path, program: Program) -> dict[int, int]:
    """What the clocks of states with event time showed last, in nanoseconds, by their numbers.

    Args:
        directory: The directory with the log; it may be in use.
        checkpoint: The engine's directory. If it is ahead of the log, that is not its log.
        program: The application.

    Raises:
        DamagedLog: The log is not as it was written.
    """
    if not program.by_event or not (directory / LOG).exists():
        return {}
    application = program.application
    progress = progress_of(checkpoint)
    reading = Reading(directory / LOG, numbering=Numbering(*_names(application)))
    if held_by(reading).departure(progress) is not None:
        return {}
    of_source: dict[int, int] = {}
    for meeting in meeting_sources(application):
        if (shown := reading.journal.silence.shown(meeting)) is not None:
            of_source |= dict.fromkeys(meeting, shown)
    sources = {number: program.source_of[number] for number in program.by_event}
    return {n: of_source[source] for n, source in sources.items() if source in of_source}


def has_clocks(state_dir: Path) -> bool:
    """Whether clocks of the state in *state_dir* may have shown something, here or elsewhere."""
    return (state_dir / LOG).exists() or not is_new(state_dir / "checkpoint")


def begin_clocks(directory: Path, application: Application, at_ns: int) -> None:
    """Let the clocks of a new state in *directory* show *at_ns* until the application starts.

    Raises:
        OSError: The log cannot be written.
    """
    sources, sinks = _names(application)
    with closing(Store(directory, application.name, sources=sources, sinks=sinks)) as store:
        silence, now_ns = store.journal.silence, store.journal.clock.now()
        for meeting in meeting_sources(application):
            silence.stored([(source, now_ns - at_ns) for source in meeting], now_ns)
            silence.watch(meeting, [])


def _names(application: Application) -> tuple[list[str], list[str]]:
    """The names of its sources, and of its sinks."""
    return [one.name for one in application.sources], [one.name for one in application.sinks]
