"""Compatibility with the command line of the original Wallaroo's workers."""

from __future__ import annotations

from pathlib import Path

import click

_PONY = "omit it: there is no Pony runtime"
_CLUSTER = "omit it: workers find each other by themselves; --workers sets their number"
_STATE = "omit it: state is always kept in --state-dir"
_REFUSED = {
    "--metrics": "omit it: metrics are served at the address of --ui, under /metrics",
    "--worker-count": "use --workers",
    "--name": "omit it: workers have no names",
    "--join": "restart with more --workers, or scale the release on Kubernetes",
    "--resilience-dir": "use --state-dir",
    **dict.fromkeys(
        ("--control", "--data", "--my-control", "--my-data", "--external", "--cluster-initializer"),
        _CLUSTER,
    ),
    "--stop-pause": "omit it: there is no pause before state moves",
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
    """A command that also accepts its APP as `--application-module NAME`.

    Other options of the original are refused, each with the option to use instead.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*; those before `--` may be in the form of the original."""
        own = args[: args.index("--")] if "--" in args else args
        return super().parse_args(ctx, [*self._translate(ctx, own), *args[len(own) :]])

    def _translate(self, ctx: click.Context, args: list[str]) -> list[str]:
        translated: list[str] = []
        remaining = iter(args)
        for arg in remaining:
            option, equals, value = arg.partition("=")
            if option in _REFUSED:
                msg = f"{option} is an option of the original Wallaroo, not of this command; "
                raise click.UsageError(msg + _REFUSED[option], ctx)
            if option != _MODULE:
                translated.append(arg)
                continue
            name = value if equals else next(remaining, "")
            if not name:
                msg = f"{_MODULE} requires the name of a module"
                raise click.UsageError(msg, ctx)
            # the original finds modules in the current directory, which is not on the path here
            file = Path(*name.split(".")).with_suffix(".py")
            translated.append(str(file) if file.is_file() else name)
        return translated
