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
_TYPED = "--in - --out -"
_TEMPLATES = {
    "counting": ("totals by name, the default", _TYPED),
    "windows": ("averages by room, every ten seconds", _TYPED),
    "join": (
        "orders and payments, whichever comes first",
        "--in -,127.0.0.1:7011 --out -",
    ),
    "fraud": ("alerts for cards that are used too often, or in two countries", _TYPED),
    "http": (
        "messages by POST, completed by asking an HTTP service",
        "--in 127.0.0.1:7010 --out -",
    ),
}
"""For each template what it makes, and the addresses to run it with."""
_HIDDEN = {"gitignore": ".gitignore"}
"""Templates of files whose names start with a dot."""


@click.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Directory to create; it must not exist yet, or be empty.  [default: the name]",
)
@click.option(
    "--template",
    type=click.Choice(list(_TEMPLATES)),
    default=next(iter(_TEMPLATES)),
    show_default=True,
    help="What the application does.",
)
def new(name: str, directory: Path | None, template: str) -> None:
    """See `new.help`, which lists the templates."""
    if not _NAME.fullmatch(name):
        msg = (
            f"{name!r} is not a valid name for an application: use up to 63 letters, digits, "
            "- and _, starting with a letter"
        )
        raise UsageError(msg)
    directory = directory or Path(name)
    with new_directory(directory):
        written = _write(name, template, directory)
    _, addresses = _TEMPLATES[template]
    click.echo(f"created an application in {directory}: {', '.join(written)}")
    click.echo(f"  test it   python -m pytest {directory}")
    click.echo(f"  check it  wallaroo check {directory}")
    click.echo(f"  run it    wallaroo run {directory} {addresses}")


new.help = f"""Create a directory with a working application and its test.

NAME is the application's name: letters, digits, - and _, starting with a letter.

\b
Templates:
{chr(10).join(f"  {kind:<10}{makes}" for kind, (makes, _) in _TEMPLATES.items())}

\b
Example:
  wallaroo new ratings
  wallaroo new alerts --template fraud
"""


def _write(name: str, template: str, directory: Path) -> list[str]:
    """Write the files of the application *name* into *directory*; returns their names."""
    written = []
    templates = resources.files("wallaroo.cli").joinpath("templates")
    for one in (*templates.iterdir(), *templates.joinpath(template).iterdir()):
        if not one.is_file():
            continue
        file = one.name.removesuffix(_SUFFIX)
        text = one.read_text(encoding="utf-8").replace("{{name}}", name)
        (directory / _HIDDEN.get(file, file)).write_text(text, encoding="utf-8")
        written.append(_HIDDEN.get(file, file))
    return sorted(file for file in written if file not in _HIDDEN.values())
