"""`wallaroo profile`: shows where the functions of a running application spend their time."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import click

from wallaroo.cli.flame_graph import ENGINE, by_step, flame_graph
from wallaroo.cli.graph import write_picture
from wallaroo.cli.option_types import FILE
from wallaroo.cli.top import DashboardClient
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.printable import printable

_RATE = 100
"""Samples per second."""
_PATIENCE_S = 60.0
"""Seconds that py-spy may take in addition to sampling."""


@click.command()
@click.argument("url", default="http://127.0.0.1:7990/")
@click.option(
    "--seconds",
    default=30,
    show_default=True,
    type=click.IntRange(1),
    help="How long to sample.",
)
@click.option(
    "--output",
    default="profile.svg",
    show_default=True,
    type=FILE,
    help="File for the flame graph.",
)
def profile(url: str, seconds: int, output: Path) -> None:
    """Profile a run on this machine and draw a flame graph of its functions, by step.

    URL is the address of its dashboard. All its worker processes are sampled without being stopped.
    This requires the package py-spy (`pip install wallaroo[profile]`) and permission to trace
    processes, for example as root.

    \b
    Example:
      wallaroo profile --seconds 30 --output profile.svg
    """  # noqa: D301  (click reads \b)
    if not output.parent.is_dir():
        msg = f"--output: the directory {str(output.parent)!r} does not exist"
        raise UsageError(msg)
    application = DashboardClient(url).get("application")
    stacks = by_step(_sample(application["pid"], seconds), application["functions"])
    if not stacks:
        msg = f"nothing ran in {seconds} s: send messages while the workers are sampled"
        raise RuntimeFailure(msg)
    title = f"{application['name']}: {seconds} s of all workers, by step"
    write_picture(output, flame_graph(title, stacks).encode())
    total = sum(stacks.values())
    shares: dict[str, int] = {}
    for (step, *_), samples in stacks.items():
        shares[step] = shares.get(step, 0) + samples
    for step, samples in sorted(shares.items(), key=lambda share: -share[1]):
        mark = "" if step == ENGINE else "step "
        click.echo(f"{100 * samples / total:5.1f} %  {mark}{printable(step)}")
    click.echo(f"wrote the flame graph to {output}")


def _sample(pid: int, seconds: int) -> list[str]:
    own = sysconfig.get_path("scripts")
    program = shutil.which("py-spy", path=own) or shutil.which("py-spy")
    if program is None:
        msg = "profiles require py-spy: install it with `pip install wallaroo[profile]`"
        raise UsageError(msg)
    with tempfile.TemporaryDirectory(prefix="wallaroo-profile-") as directory:
        raw = Path(directory, "raw")
        command = [
            *(program, "record", "--pid", str(pid), "--subprocesses", "--nonblocking"),
            *("--duration", str(seconds), "--rate", str(_RATE), "--function", "--full-filenames"),
            *("--format", "raw", "--output", str(raw)),
        ]
        sampling = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds + _PATIENCE_S
        )
        if not raw.exists():
            reason = (sampling.stderr.strip().splitlines() or ["no reason given"])[-1]
            msg = f"py-spy cannot sample process {pid}: {reason}"
            raise RuntimeFailure(msg)
        return raw.read_text().splitlines()
