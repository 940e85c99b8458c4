"""The command group. It reports errors as a sentence and an exit code, without a traceback."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import click

from wallaroo import __version__
from wallaroo.errors import RuntimeFailure, WallarooError
from wallaroo.system.disk_space import REMEDY, full, is_full
from wallaroo.system.printable import printable_lines

_COMMANDS = (
    *("new", "check", "graph", "simulate", "run", "top", "pause", "resume", "profile", "send"),
    *("receive", "demo", "build", "chart", "status", "dead-letters", "log", "kafka", "state"),
    *(
        "sql",
        "explain",
        "rehearse",
        "shadow",
        "promote",
        "replay",
        "snapshot",
        "restore",
        "repartition",
        "warm-up",
    ),
    *("fetch", "gateway", "driver", "executor", "probe"),
)
"""The commands: each is in the module of its name, which is imported when it is asked for."""
_MISSPELT = 0.8
"""How much an option resembles the one that is meant; --port and --out do less."""
_ELSEWHERE = {"resume": "pause"}
"""Modules of the others."""


class _Group(click.Group):
    """Reports the package's errors like click's; imports only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(
            import_module(f"wallaroo.cli.{_ELSEWHERE.get(name, name)}"), name
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click suggests of what is imported only
            raise click.NoSuchCommand(
                error.command_name, possibilities=_COMMANDS, ctx=ctx
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _not_before_dashes(error) from None
        except KeyboardInterrupt:
            raise _Interrupted from None
        except WallarooError as error:
            raise _ReportedError(error) from error
        except OSError as error:
            if not is_full(error):
                raise
            place = Path(error.filename or tempfile.gettempdir())
            raise _ReportedError(RuntimeFailure(f"{full(place)}: {REMEDY}")) from error


def _not_before_dashes(error: click.NoSuchOption) -> click.UsageError:
    """*error*, with what to do if the option is one of the application and not a misspelt one."""
    name, ctx = error.option_name, error.ctx
    parameters = [] if ctx is None else ctx.command.params
    if get_close_matches(name, error.possibilities or (), cutoff=_MISSPELT):
        return error
    if not any(one.name == "app_args" for one in parameters):
        return error
    advice = f"if it is one of the application, put it after --, as in: APP -- {name} …"
    return click.UsageError(f"No such option {name!r}; {advice}", ctx)


class _Interrupted(click.ClickException):
    """Ctrl-C ends a command with the exit code of a shell."""

    exit_code = 128 + signal.SIGINT

    def __init__(self) -> None:
        super().__init__("interrupted")

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=True)


class _ReportedError(click.ClickException):
    """An error of the package as one of click, with its exit code."""

    def __init__(self, error: WallarooError) -> None:
        super().__init__(printable_lines(str(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]


def preload(names: Sequence[str]) -> None:
    """Import the command that the first of *names* is, if it is one."""
    for name in names[:1]:
        main.get_command(click.Context(main), name)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wallaroo")
def main() -> None:
    """Process streams of framed messages with plain Python functions, on Apache Spark.

    \b
    Try it:
      wallaroo demo market_spread
    Exit codes: 0 done, 1 failed, 2 usage error, 130 ended by Ctrl-C.
    """  # noqa: D301  (click reads \b)
