"""User code in a command's own process: its output is kept apart from the command's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TextIO

import click

from wallaroo.api.places import Place
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.user_logs import captured_logs
from wallaroo.observability import log_channel
from wallaroo.observability.logs import kept_apart, relay


@contextlib.contextmanager
def captured_user_output(application: str | None = None) -> Iterator[None]:
    """Inside the block, turn what user code prints and logs in the driver into events.

    Args:
        application: Name of the application; None before it is loaded.
    """
    with (
        kept_apart(),
        captured_logs(relay, process="driver") as logs,
        log_channel.taken_over(),
    ):
        logs.application = application
        yield


@contextlib.contextmanager
def reserved_stdout() -> Iterator[TextIO]:
    """Standard output for a command's result alone.

    Inside the block, everything else that is printed goes to standard error.
    """
    before = sys.stdout
    if before is None:  # it is closed
        with (
            contextlib.redirect_stdout(sys.stderr),
            Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        ):
            yield nowhere
        return
    before.flush()
    with contextlib.ExitStack() as stack:
        stream: TextIO = before
        with contextlib.suppress(OSError, ValueError):  # it has no file descriptor
            descriptor = os.dup(before.fileno())
            opened = os.fdopen(descriptor, "w", encoding=before.encoding, errors=before.errors)
            stream = stack.enter_context(opened)
            if before.fileno() == 1:
                stack.enter_context(log_channel.taken_over())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield stream
        stream.flush()


@contextlib.contextmanager
def limited_calls(limit_s: float) -> Iterator[None]:
    """Inside the block, interrupt calls of user code that take longer than *limit_s*; 0 for none.

    The exception is raised in the call, so that its message fails.
    """
    timeout = CallTimeout(limit_s)
    timeout.start()
    try:
        yield
    finally:
        timeout.stop()


@contextlib.contextmanager
def empty_stdin() -> Iterator[None]:
    """Inside the block, standard input is at its end, as it is for functions on Spark."""
    before = sys.stdin
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before


@contextlib.contextmanager
def reported_exits() -> Iterator[None]:
    """Inside the block, report where user code calls `os._exit`, and never exit with code 0."""
    exit_at_once, process = os._exit, os.getpid()

    def exit_and_tell(status: int) -> NoReturn:
        if os.getpid() == process:
            caller = sys._getframe(1)  # noqa: SLF001
            place = Place(caller.f_code.co_filename, caller.f_lineno)
            click.echo(f"Error: {place}: os._exit({status}) ended this command", err=True)
            exit_at_once(status or 1)
        exit_at_once(status)

    os._exit = exit_and_tell
    try:
        yield
    finally:
        os._exit = exit_at_once
