"""The command group. It reports errors as a sentence and an exit code, without a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from wallaroo import __version__
from wallaroo.cli.build import build
from wallaroo.cli.chart import chart
from wallaroo.cli.check import check
from wallaroo.cli.dead_letters import dead_letters
from wallaroo.cli.demo import demo
from wallaroo.cli.driver import driver
from wallaroo.cli.executor import executor
from wallaroo.cli.gateway import gateway
from wallaroo.cli.graph import graph
from wallaroo.cli.new import new
from wallaroo.cli.pause import pause, resume
from wallaroo.cli.probe import probe
from wallaroo.cli.profile import profile
from wallaroo.cli.receive import receive
from wallaroo.cli.repartition import repartition
from wallaroo.cli.run import run
from wallaroo.cli.sbom import sbom
from wallaroo.cli.send import send
from wallaroo.cli.simulate import simulate
from wallaroo.cli.state import state
from wallaroo.cli.status import status
from wallaroo.cli.top import top
from wallaroo.cli.warm_up import warm_up
from wallaroo.errors import RuntimeFailure, WallarooError
from wallaroo.system.disk_space import REMEDY, full, is_full
from wallaroo.system.printable import printable_lines


class _Group(click.Group):
    """Reports the package's errors like click's."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WallarooError as error:
            raise _ReportedError(error) from error
        except OSError as error:
            if not is_full(error):
                raise
            place = Path(error.filename or tempfile.gettempdir())
            raise _ReportedError(RuntimeFailure(f"{full(place)}: {REMEDY}")) from error


class _ReportedError(click.ClickException):
    """An error of the package as one of click, with its exit code."""

    def __init__(self, error: WallarooError) -> None:
        super().__init__(printable_lines(str(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wallaroo")
def main() -> None:
    """Process streams of framed messages with plain Python functions, on Apache Spark.

    \b
    Try it:
      wallaroo demo market_spread
    Exit codes: 0 done, 1 failed, 2 usage error.
    """  # noqa: D301  (click reads \b)


for command in (
    *(new, check, graph, simulate, run, top, pause, resume, profile, send, receive, demo, build),
    *(chart, status),
    *(dead_letters, state, repartition, warm_up, sbom),
    *(gateway, driver, executor, probe),
):
    main.add_command(command)
