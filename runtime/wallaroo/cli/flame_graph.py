"""Sampled stacks as a flame graph by step, in SVG."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import wallaroo.dataflow
import wallaroo.engine

_WIDTH, _ROW = 1200, 18
_NARROW = 0.4
"""Width in pixels below which a frame is not drawn."""
_LETTER = 6.6
"""Width of a letter in pixels."""
_HUES = (32, 210, 145, 275, 5, 180, 55, 320)
ENGINE = "the runtime itself"
"""Name of the step for samples without user code."""
_RUN_TASKS = tuple(
    package.__name__.replace(".", "/") + "/" for package in (wallaroo.dataflow, wallaroo.engine)
)
"""Folders of the files whose functions run tasks."""


@dataclass
class Frame:
    """A function at one position in the call tree, and its samples."""

    samples: int = 0
    callees: dict[str, Frame] = field(default_factory=dict)


def by_step(lines: Iterable[str], steps: Mapping[str, str]) -> Counter[tuple[str, ...]]:
    """The stacks of the engine's tasks, each below its step.

    Args:
        lines: `frame;frame;… samples`, as py-spy writes them; a frame is `name (file:line)`.
        steps: The step of each function, by the function's place, `file:line`.

    Example:
        >>> stack = "worker (worker.py:1);applied (wallaroo/dataflow/paths.py:9);cut (app.py:4);lower (t.py:2)"
        >>> by_step([f"{stack} 7"], {"app.py:4": "P · split"})
        Counter({('P · split', 'cut (app.py:4)', 'lower (t.py:2)'): 7})
    """  # noqa: E501
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        stack, _, samples = line.strip().rpartition(" ")
        frames = stack.split(";")
        ours = [place for place, frame in enumerate(frames) if _runs_tasks(frame)]
        if not ours or not samples.isdigit():
            continue
        first = ours[0]
        users = [
            place
            for place, frame in enumerate(frames)
            if place > first and _place(frame) in steps and not _runs_tasks(frame)
        ]
        if users:
            called = [_short(frame) for frame in frames[users[0] :]]
            stacks[steps[_place(frames[users[0]])], *called] += int(samples)
        else:
            stacks[ENGINE, *map(_short, frames[first:])] += int(samples)
    return stacks


def flame_graph(title: str, stacks: Mapping[tuple[str, ...], int]) -> str:
    """*stacks* as SVG: a frame's width shows its samples, and its caller is below it."""
    root = Frame()
    for stack, samples in stacks.items():
        root.samples += samples
        frame = root
        for name in stack:
            frame = frame.callees.setdefault(name, Frame())
            frame.samples += samples
    depth = max((len(stack) for stack in stacks), default=0)
    height = (depth + 2) * _ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="20" font-size="15" font-weight="bold">{html.escape(title)}</text>',
    ]
    scale = _WIDTH / max(1, root.samples)
    bottom, x = height - _ROW - 6, 0.0
    largest = sorted(root.callees.items(), key=lambda called: -called[1].samples)
    for place, (name, frame) in enumerate(largest):
        hue = _HUES[place % len(_HUES)]
        parts += _drawn(name, frame, x, bottom, scale, hue, root.samples)
        x += frame.samples * scale
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(
    name: str, frame: Frame, x: float, y: float, scale: float, hue: int, total: int
) -> list[str]:
    width = frame.samples * scale
    if width < _NARROW:
        return []
    tooltip = f"{name}: {frame.samples} samples, {100 * frame.samples / total:.1f} %"
    letters = int((width - 6) / _LETTER)
    label = name if len(name) <= letters else f"{name[: letters - 1]}…" if letters > 2 else ""  # noqa: PLR2004
    light = 72 + 10 * (sum(map(ord, name)) % 2)
    parts = [
        f"<g><title>{html.escape(tooltip)}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" rx="2" '
        f'fill="hsl({hue} 70% {light}%)"/>'
        f'<text x="{x + 3:.1f}" y="{y + 13}">{html.escape(label)}</text></g>'
    ]
    for called, callee in frame.callees.items():
        parts += _drawn(called, callee, x, y - _ROW, scale, hue, total)
        x += callee.samples * scale
    return parts


def _place(frame: str) -> str:
    """`file:line` of *frame*, without folders."""
    return frame.rpartition("(")[2].rstrip(")").rpartition("/")[2]


def _short(frame: str) -> str:
    return f"{frame.partition(' (')[0]} ({_place(frame)})"


def _runs_tasks(frame: str) -> bool:
    return any(folder in frame for folder in _RUN_TASKS)
