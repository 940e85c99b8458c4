"""`wallaroo graph`: draws the pipelines of an application."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import click

from wallaroo.cli.option_types import FILE
from wallaroo.cli.options import application_without_addresses
from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.graphs.drawing import dot, mermaid
from wallaroo.graphs.graph import Graph, graph_of
from wallaroo.run.user_output import reserved_stdout

_SUFFIXES = {
    ".svg": "svg",
    ".png": "png",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".md": "mermaid",
    ".txt": "mermaid",
    "": "mermaid",
}
_PNG_DPI = 144
"""Dots per inch: twice the usual resolution, so that text is readable on any screen."""
_TIMEOUT_S = 60.0


@click.command()
@click.argument("app")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "svg", "png", "dot"]),
    help="Output format. mermaid: text that Markdown renderers show as a diagram. dot: text for "
    "Graphviz.  [default: by the suffix of FILE; without one, mermaid]",
)
@click.option(
    "--output",
    type=FILE,
    help="File to write.  [default: standard output]",
)
def graph(app: str, app_args: tuple[str, ...], form: str | None, output: Path | None) -> None:
    """Draw the pipelines of an application: sources, steps, shared state and sinks.

    In an SVG, hovering over a node shows the line of code that defines it.

    \b
    Example:
      wallaroo graph apps/market_spread --output market-spread.svg
    """  # noqa: D301  (click reads \b)
    form = form or _SUFFIXES.get(suffix := output.suffix.lower() if output else "")
    if form is None:
        msg = f"--output: no format has the suffix {suffix!r}; use .svg, .png, .dot or .mmd"
        raise UsageError(msg)
    with reserved_stdout() as out:
        picture = _PICTURES[form](graph_of(application_without_addresses(app, app_args)))
        if output is None:
            out.buffer.write(picture)
            return
    write_picture(output, picture)


def write_picture(output: Path, picture: bytes) -> None:
    """Write *picture* to the file *output*.

    Raises:
        RuntimeFailure: It cannot be written.
    """
    try:
        output.write_bytes(picture)
    except OSError as error:
        msg = f"cannot write {output}: {reason_of(error)}"
        raise RuntimeFailure(msg) from error


def svg(graph: Graph) -> bytes:
    """*graph* as SVG, with the places in user code as tooltips.

    Raises:
        UsageError: Graphviz is not installed.
        RuntimeFailure: Graphviz failed.
    """
    places = {node.id: str(node.place) for group in graph.groups for node in group.nodes}
    places |= {node.id: str(node.place) for node in graph.apart}
    places["%3"] = graph.name

    def tooltip(match: re.Match[str]) -> str:
        place = places.get(html.unescape(match[1]))
        return f"<title>{html.escape(place)}</title>\n" if place else ""

    picture = _draw(dot(graph), "-Tsvg").decode()
    return re.sub(r"<title>(.*?)</title>\n", tooltip, picture).encode()


def png(graph: Graph) -> bytes:
    """*graph* as PNG.

    Raises:
        UsageError: Graphviz is not installed.
        RuntimeFailure: Graphviz failed.
    """
    return _draw(dot(graph), "-Tpng", f"-Gdpi={_PNG_DPI}")


_PICTURES: dict[str, Callable[[Graph], bytes]] = {
    "mermaid": lambda graph: mermaid(graph).encode(),
    "svg": svg,
    "png": png,
    "dot": lambda graph: dot(graph).encode(),
}


def _draw(text: str, *options: str) -> bytes:
    program = _graphviz()
    done = subprocess.run(
        [program, *options],
        input=text.encode(),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        msg = f"{program} could not draw the graph: {done.stderr.decode(errors='replace').strip()}"
        raise RuntimeFailure(msg)
    return done.stdout


def _graphviz() -> str:
    """The Graphviz program: that of this Python's package, or else one on the PATH."""
    own = sysconfig.get_path("scripts")
    program = shutil.which("graphviz-pure", path=own) or shutil.which("graphviz-pure")
    program = program or shutil.which("dot")
    if program is None:
        msg = (
            "svg and png require Graphviz: install it with `pip install graphviz-pure`, "
            "or use --format mermaid, which does not"
        )
        raise UsageError(msg)
    return program
