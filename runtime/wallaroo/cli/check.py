"""`wallaroo check`: is an application well formed? Without starting anything."""

from __future__ import annotations

import click

from wallaroo.cli.options import application_to_look_at
from wallaroo.engine.program import Program
from wallaroo.model.application import StateCompute


@click.command()
@click.argument("app")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def check(app: str, app_args: tuple[str, ...]) -> None:
    """Say everything that is wrong with an application, or what it is made of.

    \b
    Example:
      wallaroo check apps/market_spread
    """  # noqa: D301  (click reads \b)
    application = application_to_look_at(app, app_args)
    Program(application, buckets=1)
    click.echo(f"{application.name} is well formed:")
    for pipeline in application.pipelines:
        steps = [
            f"{step.name} [{step.partition}]" if isinstance(step, StateCompute) else step.name
            for step in pipeline.steps
        ]
        end = [f"{len(pipeline.sinks)} sinks"] if len(pipeline.sinks) > 1 else ["sink"]
        click.echo("  " + " → ".join([pipeline.name, *steps, *(end if pipeline.sinks else [])]))
    for partition in application.partitions.values():
        keys = "any key" if partition.keys is None else f"{len(partition.keys)} keys"
        click.echo(f"  state {partition.name!r}: {keys}")
