"""APP and its arguments, which most commands take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from wallaroo.cli.option_tree import Decorator, Option, Part
from wallaroo.cli.option_types import FILE
from wallaroo.loading.loader import ApplicationRef


class ApplicationOptions(Part):
    """APP, the addresses that it takes and its own arguments, which fill an `ApplicationRef`."""

    _inputs = Option(
        "--in",
        "-i",
        "inputs",
        metavar="[NAME@]HOST:PORT,…",
        help="Addresses to listen on, in the order in which the application defines its sources. "
        "With port 0 the system chooses a port; the ready event shows it. With `wallaroo run`, one "
        "can be -, for lines of standard input.",
    )
    _outputs = Option(
        "--out",
        "-o",
        "outputs",
        metavar="HOST:PORT,…",
        help="Addresses to send outputs to, in the order in which the application defines its "
        "sinks; - prints them.",
    )
    _max_frame = Option(
        "--max-frame",
        type=click.IntRange(1),
        help="Largest payload that a source accepts, in bytes, unless it sets max_size.",
    )
    _code = Option("--code", type=FILE, hidden=True)  # of a child of `wallaroo run --reload`

    def decorators(self, default: Any) -> Iterator[Decorator]:  # noqa: ARG002
        """See `Part.decorators`."""
        yield click.argument("app")
        yield from self._inputs.decorators(None)
        yield from self._outputs.decorators(None)
        yield from self._max_frame.decorators(ApplicationRef.max_frame)
        yield from self._code.decorators(ApplicationRef.code)
        yield click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")

    def fill(self, values: Mapping[str, Any]) -> ApplicationRef:
        """See `Part.fill`."""
        inputs, outputs = self._inputs.fill(values), self._outputs.fill(values)
        args = [*(("--in", inputs) if inputs else ()), *(("--out", outputs) if outputs else ())]
        max_frame = self._max_frame.fill(values)
        code = self._code.fill(values)
        return ApplicationRef(values["app"], (*args, *values["app_args"]), max_frame, code)

    def arguments(self, value: ApplicationRef) -> list[str]:
        """See `Part.arguments`."""
        options = [*self._max_frame.arguments(value.max_frame), *self._code.arguments(value.code)]
        return [value.app, *options, "--", *value.args]
