"""Writes docs/reference/commands.md from the commands themselves; called by `make commands`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from wallaroo.cli.main import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
_HEAD = """\
# Commands

Every command, as `wallaroo COMMAND --help` describes it. Exit codes: 0 done, 1 failed, 2 usage
error, 130 ended by Ctrl-C. `make commands` writes this page.

"""
_UNWRAPPED = "\b\n"
"""Begins a paragraph that click prints as it is."""


def page() -> str:
    """The page as it should be."""
    context = click.Context(main, info_name="wallaroo")
    return _HEAD + "\n".join(_sections(main, context))


def _sections(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            yield from _sections(command, context)
        else:
            yield _section(command, context)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {context.command_path}", "", f"    {context.command_path} {usage}", ""]
    lines += [_text(command.help or ""), ""]
    rows = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    rows = [row for row in rows if row]
    if rows:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _text(help_text: str) -> str:
    """The text of a command; what click does not wrap, examples, as code."""
    written: list[str] = []
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if not paragraph.startswith(_UNWRAPPED):
            written.append(_escaped(" ".join(paragraph.split())))
            continue
        for line in paragraph.splitlines()[1:]:
            if line.startswith("  ") and written[-1].startswith("    "):
                written[-1] += f"\n  {line}"
            else:
                written.append(f"  {line}" if line.startswith("  ") else _escaped(line))
    return "\n\n".join(written)


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    if record is None:
        return ""
    names, text = (" ".join(part.split()).replace("|", r"\|") for part in record)
    return f"| `{names}` | {_escaped(text)} |"


def _escaped(text: str) -> str:
    """*text* without what Markdown would take for markup."""
    return re.sub(r"(?<!`)([*_<>\[\]])(?!`)", r"\\\1", text)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(page() != PAGE.read_text())
    PAGE.write_text(page())
