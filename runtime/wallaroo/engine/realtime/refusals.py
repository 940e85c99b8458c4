"""What the real-time engine does not do yet, and refuses at the start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from wallaroo.dataflow.program import Program
from wallaroo.errors import UsageError
from wallaroo.observability.tracing import traces_for


def refuse(what: str) -> NoReturn:
    """Refuse *what*, which only the other engine does.

    Raises:
        UsageError: Always.
    """
    msg = f"the real-time engine does not support {what}; use --engine micro-batch"
    raise UsageError(msg)


def check(program: Program) -> None:
    """Refuse what this engine cannot run.

    Raises:
        UsageError: The message names what it is.
    """
    for what in _unsupported(program):
        refuse(what)


def _unsupported(program: Program) -> Iterator[str]:
    if program.levels.count > 1:
        yield "a pipeline whose messages go from one state to another with a different key"
    if program.timed:
        name = program.partitions[min(program.timed)].name
        yield f"windows, such as those of {name!r}"
    if traces_for(program.application.name) is not None:
        yield "traces"
