"""`wallaroo new`: creates a working application to start from."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from wallaroo.errors import UsageError
from wallaroo.system.new_directory import new_directory

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_SUFFIX = ".template"
_HIDDEN = {"gitignore": ".gitignore"}
"""Templates of files whose names start with a dot."""


@click.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Directory to create; it must not exist yet, or be empty.  [default: the name]",
)
def new(name: str, directory: Path | None) -> None:
    """Create a directory with a working application and its test.

    NAME is the application's name: letters, digits, - and _, starting with a letter.

    \b
    Example:
      wallaroo new ratings
    """  # noqa: D301  (click reads \b)
    if not _NAME.fullmatch(name):
        msg = (
            f"{name!r} is not a valid name for an application: use up to 63 letters, digits, "
            "- and _, starting with a letter"
        )
        raise UsageError(msg)
    directory = directory or Path(name)
    with new_directory(directory):
        written = _write(name, directory)
    click.echo(f"created an application in {directory}: {', '.join(written)}")
    click.echo(f"  test it   python -m pytest {directory}")
    click.echo(f"  check it  wallaroo check {directory}")
    click.echo(f"  run it    wallaroo run {directory} --in 127.0.0.1:7010 --out 127.0.0.1:7002")


def _write(name: str, directory: Path) -> list[str]:
    """Write the files of the application *name* into *directory*; returns their names."""
    written = []
    for template in resources.files("wallaroo.cli").joinpath("template").iterdir():
        file = template.name.removesuffix(_SUFFIX)
        text = template.read_text(encoding="utf-8").replace("{{name}}", name)
        (directory / _HIDDEN.get(file, file)).write_text(text, encoding="utf-8")
        written.append(_HIDDEN.get(file, file))
    return sorted(file for file in written if file not in _HIDDEN.values())
