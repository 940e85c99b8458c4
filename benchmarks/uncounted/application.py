"""Market Spread while nothing is counted or timed: what the figures cost is measured against it.

There is no switch for that. Whichever process loads this application takes the statements that
collect figures out of the engine's code, and has the gateway add none up.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from wallaroo.dataflow import decoding, paths, state_runner
from wallaroo.gateway.outbox.metrics import MetricsTable

_COUNTS = {"entered", "left", "timed", "seconds"}
_CALLS = {"note", "add_arrivals", "add_hot_keys"}
_APP = Path(__file__).parents[2] / "apps" / "market_spread"


class _Uncounted(ast.NodeTransformer):
    """Takes out what collects figures."""

    def __init__(self) -> None:
        self.taken = 0
        """Statements that were taken out."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        target = node.target
        name = getattr(target, "attr", None) or getattr(target, "id", None)
        counts = name in _COUNTS
        return self._without(node, counts or "'_hot'" in ast.dump(target))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        return self._without(node, isinstance(called, ast.Attribute) and called.attr in _CALLS)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body else None

    def visit_For(self, node: ast.For) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "perf_counter":
            return ast.copy_location(ast.Constant(0.0), node)
        return self.generic_visit(node)

    def _without(self, node: ast.stmt, counts: bool) -> ast.AST | None:
        self.taken += counts
        return None if counts else self.generic_visit(node)


def _functions(names: dict[str, Any], module: str) -> Iterator[tuple[str, FunctionType]]:
    for name, value in names.items():
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, FunctionType):
            yield name, value
        elif inspect.isclass(value):
            yield from (
                (f"{name}.{inner}", f) for inner, f in _functions(dict(vars(value)), module)
            )


def _uncount(module: ModuleType) -> None:
    taking = _Uncounted()
    tree = ast.fix_missing_locations(taking.visit(ast.parse(inspect.getsource(module))))
    if not taking.taken:
        msg = f"nothing is counted in {module.__name__} any more: see to the benchmark"
        raise RuntimeError(msg)
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(tree, str(module.__file__), "exec", dont_inherit=True), names)
    fresh = dict(_functions(names, module.__name__))
    for name, function in _functions(vars(module), module.__name__):
        # the generated methods of tuples and dataclasses have nothing to take out
        if fresh[name].__code__.co_filename == module.__file__:
            function.__code__ = fresh[name].__code__


for _module in (paths, decoding, state_runner):
    _uncount(_module)
state_runner.StateRunner.note_entities = lambda *_state: None  # type: ignore[method-assign]
MetricsTable.add = lambda *_figures: None  # type: ignore[method-assign]

sys.path.insert(0, str(_APP))
_spec = importlib.util.spec_from_file_location("market_spread", _APP / "application.py")
assert _spec is not None
assert _spec.loader is not None
_market_spread = sys.modules["market_spread"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_market_spread)
application_setup = _market_spread.application_setup
