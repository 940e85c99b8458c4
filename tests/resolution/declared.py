"""Applications that are resolved, and the mistakes that are found."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import as_line, decode
from wallaroo.api.builder import ApplicationBuilder
from wallaroo.errors import ApplicationError
from wallaroo.resolution.application import resolve

SINK = wallaroo.TCPSinkConfig("127.0.0.1", 1, as_line)


SOURCE = wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)


def begun(source: Any = SOURCE) -> ApplicationBuilder:
    return ApplicationBuilder("app").new_pipeline("lines", source)


def problems(builder: ApplicationBuilder) -> tuple[str, ...]:
    with pytest.raises(ApplicationError) as raised:
        resolve(builder.build())
    return raised.value.problems


def only_problem(builder: ApplicationBuilder) -> str:
    (problem,) = problems(builder)
    return problem


def this_line() -> int:
    return sys._getframe(1).f_lineno
