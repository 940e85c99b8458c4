"""`wallaroo status`: reports the status of a release on a cluster, and its problems."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from wallaroo.cli.option_types import NumberType
from wallaroo.cli.tables import table
from wallaroo.run.kubernetes.release import MAX_LAG_S, ReleaseStatus, load_api, release_status
from wallaroo.system.printable import printable

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


@click.command()
@click.argument("release")
@click.option("-n", "--namespace", help="Namespace of the release.  [default: the context's]")
@click.option("--context", help="Context of kubectl's configuration.  [default: the current one]")
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--max-lag",
    type=NumberType(),
    default=MAX_LAG_S,
    show_default=True,
    metavar="SECONDS",
    help="Seconds that a message may wait before this is reported as a problem.",
)
def status(
    release: str, namespace: str | None, context: str | None, output: str, max_lag: float
) -> None:
    """Show the status of RELEASE: its pods, workers, sources, speed and problems.

    It queries the cluster of kubectl's configuration, and needs permission to list pods,
    ConfigMaps and events and to reach pods through the API server. Exit code 0 means that the
    status could be determined, not that it is good: if there are no problems, `problems` in the
    JSON is empty.

    \b
    Example:
      wallaroo status market-spread --output json
    """  # noqa: D301  (click reads \b)
    api, chosen = load_api(context, namespace)
    current = release_status(api, chosen, release, max_lag)
    if output == "json":
        click.echo(json.dumps(current.to_json(), indent=2))
    else:
        click.echo("\n".join(map(printable, _lines(current))))


def _lines(status: ReleaseStatus) -> Iterator[str]:
    values = status.to_json()
    state = values["state"] or "the driver does not respond"
    yield f"{status.release} in {status.namespace}: {state}"
    yield ""
    yield from table(
        ["POD", "COMPONENT", "STATE", "READY", "RESTARTS", "AGE"],
        [
            [p.name, p.component, p.phase, "yes" if p.ready else "no", p.restarts, _age(p.age_s)]
            for p in status.pods
        ],
    )
    yield ""
    wanted = "?" if status.workers_wanted is None else status.workers_wanted
    running, most = status.workers_running, status.partitions
    yield f"workers   {running} running, {wanted} wanted, {most} at most"
    if scaling := values["autoscaling"]:
        only = ", reported only" if scaling["mode"] == "report" else ""
        reason = scaling["reason"] or "the query has not started"
        yield f"scaling   {scaling['min']} to {scaling['max']}{only}: {reason}"
    if status.driver is not None:
        number = (values["chunk"] or {}).get("number")
        yield (
            f"published {'nothing yet' if number is None else f'up to chunk {number:,}'}, "
            f"{values['publications_per_s']} publications and "
            f"{_count(values['messages_per_s'])} messages per second"
        )
    if status.gateway is not None:
        yield f"lag       {values['lag_s']:.1f} s, {_count(values['backlog'])} messages waiting"
        yield (
            f"outputs   {_count(values['delivered'])} delivered, "
            f"{_count(values['undelivered'])} waiting for their receivers"
        )
        if values["late"]:
            yield f"late      {_count(values['late'])} messages came after their windows had closed"
        yield ""
        yield from table(
            ["SOURCE", "ADDRESS", "ACCEPTED", "BACKLOG"],
            [
                [s["name"], s["where"], _count(s["accepted"]), _count(s["backlog"])]
                for s in values["sources"]
            ],
        )
        yield from (f"{s['name']} {s['waits']}" for s in values["sources"] if s.get("waits"))
    else:
        yield "the gateway does not respond"
    yield ""
    if status.problems:
        yield "problems"
        yield from (f"  {problem}" for problem in status.problems)
    else:
        yield "no problems"


def _count(number: float | None) -> str:
    return "?" if number is None else f"{number:,.0f}"


def _age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"
