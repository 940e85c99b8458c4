"""Writes the table of values in docs/reference/values.md from the comments in the charts' values.

Called by `make values`. A value is documented by a comment above it that begins with `# -- `; what
is below a documented value belongs to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
VALUES = ROOT / "helm/wallaroo/values.yaml"
PAGE = ROOT / "docs/reference/values.md"
BEGIN, END = "<!-- values: made by make values -->\n", "<!-- end of values -->\n"


@dataclass(frozen=True)
class Value:
    """One value that a user may set."""

    path: str
    """Its name as `--set` takes it."""
    default: Any
    text: str
    """What its comment says, on one line; empty where it has none."""


def documented(text: str) -> Iterator[Value]:
    r"""The values in *text*, the library's values.yaml, in their order.

    Example:
        >>> text = "exports:\n  defaults:\n    a:\n      # -- So\n      # much.\n      b: 1\n"
        >>> list(documented(text))
        [Value(path='a.b', default=1, text='So much.')]
    """
    lines = text.splitlines()
    node = yaml.compose(text, yaml.SafeLoader)
    for name in ("exports", "defaults"):
        assert isinstance(node, yaml.MappingNode)
        node = next(value for key, value in node.value if key.value == name)
    assert isinstance(node, yaml.MappingNode)
    yield from _below(node, (), lines)


def table(values: Iterator[Value]) -> str:
    """*values* as a table in Markdown."""
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for value in values:
        text = value.text.replace("|", "\\|")
        rows.append(f"| `{value.path}` | `{_shown(value.default)}` | {text} |")
    return "\n".join(rows) + "\n"


def page(old: str) -> str:
    """The page *old* with the table as it has to be."""
    before, _, rest = old.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(documented(VALUES.read_text()))}\n{END}{after}"


def _below(node: yaml.MappingNode, path: tuple[str, ...], lines: Sequence[str]) -> Iterator[Value]:
    for key, value in node.value:
        name, text = (*path, key.value), _comment(lines, key.start_mark.line)
        if not text and isinstance(value, yaml.MappingNode) and value.value:
            yield from _below(value, name, lines)
        else:
            default = yaml.SafeLoader("").construct_document(value)
            yield Value(".".join(name), default, text)


def _comment(lines: Sequence[str], line: int) -> str:
    """The comment that stands directly above *line*, if it is a value's documentation."""
    said: list[str] = []
    while line > 0 and (above := lines[line - 1].strip()).startswith("#"):
        said.insert(0, above.lstrip("#").strip())
        if above.startswith("# -- "):
            said[0] = said[0].removeprefix("-- ")
            return " ".join(said)
        line -= 1
    return ""


def _shown(default: Any) -> str:
    return json.dumps(default) if default != "" else '""'


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
