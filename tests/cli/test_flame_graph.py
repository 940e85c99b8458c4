"""A profile tells the engine's frames from user code wherever the engine's files lie."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import wallaroo
from wallaroo.cli.flame_graph import ENGINE, by_step
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.paths import Paths
from wallaroo.dataflow.state_runner import StateRunner


@pytest.mark.parametrize("kind", [Paths, Router, StateRunner])
def test_what_runs_steps_is_of_the_engine(kind: type) -> None:
    file = Path(inspect.getfile(kind)).relative_to(Path(wallaroo.__file__).parents[1])
    engine = f"run ({file}:7)"
    assert by_step([f"main (worker.py:1);{engine};cut (app.py:4) 3"], {"app.py:4": "P · cut"}) == {
        ("P · cut", "cut (app.py:4)"): 3
    }
    # a step of the same file name and line is not taken for it
    assert by_step([f"{engine};{engine} 2"], {f"{file.name}:7": "P · cut"}) == {
        (ENGINE, f"run ({file.name}:7)", f"run ({file.name}:7)"): 2
    }
