"""The command line of Wallaroo's own workers: what of it is taken, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import click

_PONY = "leave it out: there is no Pony runtime"
_CLUSTER = "leave it out: workers find each other by themselves; --workers says how many there are"
_STATE = "leave it out: state is always kept, in --state-dir"
_NOT_OFFERED = {
    "--metrics": "leave it out: figures are served at the address of --ui, under /metrics",
    "--worker-count": "give --workers",
    "--name": "leave it out: workers have no names",
    "--join": "stop and start again with more --workers, or scale the release on Kubernetes",
    "--resilience-dir": "give --state-dir",
    **dict.fromkeys(
        ("--control", "--data", "--my-control", "--my-data", "--external", "--cluster-initializer"),
        _CLUSTER,
    ),
    "--stop-pause": "leave it out: there is no pause before state moves",
    **dict.fromkeys(
        (
            "--run-with-resilience",
            "--time-between-checkpoints",
            "--log-rotation",
            "--event-log-file-size",
            "--resilience-enable-io-journal",
            "--resilience-no-local-file-io",
            "--resilience-dos-server",
        ),
        _STATE,
    ),
    **dict.fromkeys(("--ponythreads", "--ponynoblock", "--ponypin", "--ponypinasio"), _PONY),
}
_MODULE = "--application-module"


class UpstreamCommand(click.Command):
    """A command that also takes its APP as `--application-module NAME`.

    Wallaroo's other options are refused, each with what to give in its place.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read *args*, up to a `--` as Wallaroo's own command line has them, too."""
        own = args[: args.index("--")] if "--" in args else args
        return super().parse_args(ctx, [*self._taken(ctx, own), *args[len(own) :]])

    def _taken(self, ctx: click.Context, args: list[str]) -> list[str]:
        taken: list[str] = []
        left = iter(args)
        for arg in left:
            option, equals, value = arg.partition("=")
            if option in _NOT_OFFERED:
                msg = f"{option} is an option of Wallaroo's workers, not of this command; "
                raise click.UsageError(msg + _NOT_OFFERED[option], ctx)
            if option != _MODULE:
                taken.append(arg)
                continue
            name = value if equals else next(left, "")
            if not name:
                msg = f"{_MODULE} is given without the name of a module"
                raise click.UsageError(msg, ctx)
            # upstream finds modules in the current directory, which is not on the path here
            file = Path(*name.split(".")).with_suffix(".py")
            taken.append(str(file) if file.is_file() else name)
        return taken
