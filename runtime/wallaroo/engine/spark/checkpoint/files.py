"""Spark's own files in a checkpoint, checked before it reads them.

Where it cannot read one, Spark fails with a trace that names a class. Where one is missing, it
begins anew, or runs an epoch again whose changes the state has already. So those that it reads at a
start are read here first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from wallaroo.engine.spark.checkpoint.epochs import numbers_in
from wallaroo.engine.spark.checkpoint.schemas import check_schemas
from wallaroo.errors import damaged

_LEGIBLE = re.compile(r"v[1-9]\d*")
"""The first line of the files of a log: their version."""


def check_files(checkpoint: Path) -> None:
    """Refuse a checkpoint whose files Spark could not read, or would misunderstand.

    Args:
        checkpoint: Its directory, which need not exist. No query may be running.

    Raises:
        DamagedFile: A file is damaged or missing; the message names it and says what to do.
    """
    planned, committed = numbers_in(checkpoint / "offsets"), numbers_in(checkpoint / "commits")
    if not planned and not committed:
        return
    _check(checkpoint / "metadata", _id_problem)
    check_schemas(checkpoint)
    last = max([*planned, *committed])
    # the last epoch may be unfinished; Spark continues from the one before
    for number in range(max(0, last - 1), last + 1):
        _check(checkpoint / "offsets" / str(number), _offset_problem)
        if number < last or number in committed:
            _check(checkpoint / "commits" / str(number), _commit_problem)


def _check(file: Path, problem_of: Callable[[str], str | None]) -> None:
    try:
        problem = problem_of(file.read_text())
    except FileNotFoundError:
        problem = "it is missing"
    except (OSError, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise damaged(file, problem)


def _id_problem(text: str) -> str | None:
    read = json.loads(text)
    if isinstance(read, dict) and isinstance(read.get("id"), str):
        return None
    return "it does not name a query"


def _offset_problem(text: str) -> str | None:
    version, *lines = text.splitlines() or [""]
    metadata, *offsets = map(json.loads, lines) if _LEGIBLE.fullmatch(version) else [None]
    if not offsets:
        return "it is incomplete"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("conf"), dict):
        return "it lacks the settings of the epoch"
    if not all(isinstance(one, dict) and isinstance(one.get("offset"), int) for one in offsets):
        return "it lacks the position in the journal"
    return None


def _commit_problem(text: str) -> str | None:
    version, *lines = text.splitlines() or [""]
    if not _LEGIBLE.fullmatch(version) or len(lines) != 1:
        return "it is incomplete"
    return None if isinstance(json.loads(lines[0]), dict) else "it does not describe an epoch"
