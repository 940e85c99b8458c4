"""Which decoders may run twice: those that cannot give anything else the second time."""

from __future__ import annotations

import importlib.util
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.model.purity_cases import IMPURE, IMPURE_KEYS, PURE, PURE_KEYS
from wallaroo import testing
from wallaroo.api.functions import Decoder
from wallaroo.model import loader
from wallaroo.model.application import Application, Stateful
from wallaroo.model.branch import only_key
from wallaroo.model.purity import is_repeatable

ROOT = Path(__file__).parents[2]
_numbers = itertools.count()

HEADER = """
from __future__ import annotations
import base64, collections, dataclasses, datetime, enum, functools, itertools, json, math, operator
import os, random, re, string, struct, sys, threading, time, typing, uuid
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import lru_cache, partial
from typing import NamedTuple
"""
ANY_KEY = "\ndef key(message):\n    return 0\n"
ANY_DECODER = "\ndef decode(payload):\n    return json.loads(payload)\n"

Load = Callable[..., ModuleType]


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Load]:
    """Imports a source as a module."""
    loaded: list[str] = []

    def load(source: str, name: str = "") -> ModuleType:
        name = name or f"purity_case_{next(_numbers)}"
        file = tmp_path / f"{name}.py"
        file.write_text(source)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        loaded.append(name)
        spec.loader.exec_module(made)
        return made

    yield load
    for name in loaded:
        del sys.modules[name]


@pytest.mark.parametrize("source", PURE)
def test_a_decoder_of_pure_parts_may_run_twice(module: Load, source: str) -> None:
    made = module(HEADER + ANY_KEY + source)
    assert is_repeatable(made.decode, made.key)


@pytest.mark.filterwarnings("ignore:'return' in a 'finally' block:SyntaxWarning")
@pytest.mark.parametrize("source", IMPURE)
def test_a_decoder_that_may_give_something_else_may_not(module: Load, source: str) -> None:
    made = module(HEADER + ANY_KEY + source)
    assert not is_repeatable(made.decode, made.key)


@pytest.mark.parametrize("source", PURE_KEYS)
def test_a_key_function_that_reads_its_message_leaves_it_as_it_is(
    module: Load, source: str
) -> None:
    made = module(HEADER + ANY_DECODER + source)
    assert is_repeatable(made.decode, made.key)


@pytest.mark.parametrize("source", IMPURE_KEYS)
def test_a_key_function_that_may_change_its_message_is_found(module: Load, source: str) -> None:
    made = module(HEADER + ANY_DECODER + source)
    assert not is_repeatable(made.decode, made.key)


def _pairs(application: Application) -> Iterator[tuple[Any, Any]]:
    for pipeline in application.pipelines:
        for step in pipeline.trunk.steps:
            if isinstance(step, Stateful) and step.key is not None:
                yield pipeline.source.decode, step.key


@pytest.mark.parametrize(
    ("app", "pairs"),
    [("apps/market_spread", 2), ("apps/word_count", 1), ("benchmarks/keys/application.py", 1)],
)
def test_the_applications_here_are_pure(
    app: str, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # neither another test's application here, nor this one there
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(loader, "_imported_from", [])
    for name in ("application", "messages"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]
    found = [is_repeatable(*pair) for pair in _pairs(testing.load(ROOT / app))]
    assert found == [True] * pairs


def test_functions_of_pythons_own_are_known() -> None:
    assert is_repeatable(bytes.decode, str.lower)
    assert is_repeatable(bytes.decode, operator.itemgetter(0))
    assert is_repeatable(bytes.decode, operator.attrgetter("symbol"))
    assert is_repeatable(bytes.decode, only_key)
    assert not is_repeatable(bytes.decode, operator.methodcaller("append", 1))
    assert not is_repeatable(bytes.decode, operator.attrgetter("__class__"))
    assert not is_repeatable(lambda _payload, made=[]: made, str.lower)  # type: ignore[misc]


def test_decorated_functions_are_unwrapped(module: Load) -> None:
    made = module(
        "import wallaroo\n"
        "@wallaroo.decoder(header_length=4, length_fmt='>I')\n"
        "def decode(payload):\n    return payload.decode()\n"
        "@wallaroo.partition\n"
        "def key(message):\n    return message[0]\n"
    )
    assert isinstance(made.decode, Decoder)
    assert is_repeatable(made.decode, made.key)


def test_a_method_is_pure_if_its_object_plays_no_part(module: Load) -> None:
    made = module(
        "class Stateless:\n"
        "    def decode(self, bs):\n        return bs.decode()\n"
        "    def partition(self, data):\n        return data[0]\n"
        "class Counting:\n"
        "    seen = 0\n"
        "    def decode(self, bs):\n        self.seen += 1\n        return (self.seen, bs)\n"
        "class Configured:\n"
        "    def __init__(self, encoding):\n        self.encoding = encoding\n"
        "    def decode(self, bs):\n        return bs.decode(self.encoding)\n"
    )
    key = made.Stateless().partition
    assert is_repeatable(made.Stateless().decode, key)
    assert not is_repeatable(made.Counting().decode, key)
    assert not is_repeatable(made.Configured("utf-8").decode, key)


def test_a_constant_of_another_module_is_followed_to_where_it_is_made(module: Load) -> None:
    module("import os\nWIDTH = 4\nSALT = os.getpid()\n", "purity_constants")
    source = "from purity_constants import {0}\ndef decode(bs): return bs[:{0}]\n" + ANY_KEY
    good, bad = module(source.format("WIDTH")), module(source.format("SALT"))
    assert is_repeatable(good.decode, good.key)
    assert not is_repeatable(bad.decode, bad.key)


def test_a_module_that_patches_another_beside_it_is_seen(module: Load) -> None:
    formats = module("WIDTH = 4\ndef decode(bs): return bs[:WIDTH]\n" + ANY_KEY, "purity_formats")
    assert is_repeatable(formats.decode, formats.key)
    module("import purity_formats\ndef widen(): purity_formats.WIDTH += 1\n")
    user = module(
        "import purity_formats\ndef decode(bs): return bs[:purity_formats.WIDTH]\n" + ANY_KEY
    )
    assert not is_repeatable(user.decode, user.key)


def test_a_constant_that_was_bound_again_from_elsewhere_is_seen(module: Load) -> None:
    made = module("WIDTH = 4\ndef decode(bs): return bs[:WIDTH]\n" + ANY_KEY)
    assert is_repeatable(made.decode, made.key)
    vars(made)["WIDTH"] = 5
    assert not is_repeatable(made.decode, made.key)


def test_a_function_that_its_file_does_not_show_is_not_known(module: Load, tmp_path: Path) -> None:
    made = module("def decode(bs): return bs\n" + ANY_KEY, "purity_edited")
    assert is_repeatable(made.decode, made.key)
    (tmp_path / "purity_edited.py").write_text("def decode(bs): return bs[1:]\n" + ANY_KEY)
    assert not is_repeatable(made.decode, made.key)
    space: dict[str, Any] = {"__file__": __file__}
    exec(compile("def decode(bs): return bs", __file__, "exec"), space)
    assert not is_repeatable(space["decode"], str.lower)


def test_two_lambdas_of_one_line_are_not_told_apart(module: Load) -> None:
    made = module("decode, key = (lambda bs: bs.decode(), lambda bs: bs.strip())\n")
    assert not is_repeatable(made.decode, made.key)
    apart = module("decode = lambda bs: bs.decode()\nkey = lambda bs: bs.strip()\n")
    assert is_repeatable(apart.decode, apart.key)
