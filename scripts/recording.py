"""Writes docs/explaining.svg: the examples of docs/explaining.md as they appear on a terminal.

    python scripts/recording.py

The page's tests compare its examples with what the commands print.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "explaining.md", DOCS / "explaining.svg"
_COMMANDS = ("explain", "shadow")
"""Commands whose examples are shown, one after the other."""
_EXAMPLE = re.compile(r"```console\n(\$ wallaroo (\w+) .*?)```", re.DOTALL)
_COLUMNS, _SIZE = 98, 13
"""Characters of a line, and their size in pixels."""
_WIDTH, _HEIGHT = 0.602, 1.45
"""Of a character and of a line, as multiples of that."""
_MARGIN = 14
_TYPING_S, _LINE_S, _READING_S = 2.5, 0.9, 9.0
"""For a command, between two lines of its output, and for reading the last one."""
_STYLE = """
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
font-size:%dpx;fill:#d6deeb;white-space:pre;opacity:0}
.command{fill:#addb67}
@media (prefers-reduced-motion:reduce){text{animation:none!important}.s0{opacity:1}}"""


class _Line(NamedTuple):
    scene: int
    row: int
    text: str
    at_s: float
    """When it appears."""
    until_s: float
    """When it goes, with all of its scene."""


def picture() -> str:
    """The picture."""
    lines, length_s = _lines(PAGE.read_text())
    width = round(2 * _MARGIN + _COLUMNS * _SIZE * _WIDTH)
    height = round(2 * _MARGIN + (1 + max(line.row for line in lines)) * _SIZE * _HEIGHT)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'width="{width}" height="{height}">',
            "<title>wallaroo explain shows the messages that made the state of a key; wallaroo "
            "shadow runs changed code beside an application</title>",
            f"<style>{_STYLE % _SIZE}",
            *(_times(number, line, length_s) for number, line in enumerate(lines)),
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#011627"/>',
            *(_text(number, line) for number, line in enumerate(lines)),
            "</svg>",
            "",
        ]
    )


def _lines(page: str) -> tuple[list[_Line], float]:
    """All lines, and how long one round takes."""
    examples = {
        name: shown for shown, name in reversed(_EXAMPLE.findall(page))
    }  # the first of each
    lines, at_s = list[_Line](), 0.5
    for scene, name in enumerate(_COMMANDS):
        texts = [part for line in examples[name].splitlines() for part in _folded(line)]
        until_s = at_s + _TYPING_S + _LINE_S * len(texts) + _READING_S
        for row, text in enumerate(texts):
            lines.append(_Line(scene, row, text, at_s, until_s))
            at_s += _TYPING_S if row == 0 else _LINE_S
        at_s = until_s + 0.5
    return lines, at_s


def _folded(line: str) -> list[str]:
    """*line* as a terminal shows it that has too few columns."""
    return [line[at : at + _COLUMNS] for at in range(0, len(line), _COLUMNS)] or [""]


def _times(number: int, line: _Line, length_s: float) -> str:
    start, end = (100 * at / length_s for at in (line.at_s, line.until_s))
    shown = f"{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,{end:.2f}%{{opacity:1}}"
    frames = f"@keyframes l{number}{{0%,{shown}{end + 0.01:.2f}%,100%{{opacity:0}}}}"
    return f"{frames}#l{number}{{animation:l{number} {length_s:.1f}s linear infinite}}"


def _text(number: int, line: _Line) -> str:
    y = _MARGIN + (line.row + 0.75) * _SIZE * _HEIGHT
    kind = f"s{line.scene}" + " command" * line.text.startswith("$ ")
    return (
        f'<text id="l{number}" class="{kind}" x="{_MARGIN}" y="{y:.1f}" xml:space="preserve">'
        f"{escape(line.text)}</text>"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
