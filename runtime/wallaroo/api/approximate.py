"""Ready-made aggregations whose values are estimates, of bounded size.

They are sketches of Apache DataSketches, which requires the extra `wallaroo[sketches]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from wallaroo.api.integers import integer
from wallaroo.api.ready_aggregations import In, ReadyAggregation, checked_function, itself
from wallaroo.errors import WallarooParameterError
from wallaroo.system.packages import required

_PRECISIONS = range(4, 22)
"""Binary logarithms of the number of registers, as the library takes them."""
_INTEGERS = range(-(2**63), 2**63)
"""Integers that the library takes as such."""


class ApproxDistinct(ReadyAggregation[In, int]):
    """Estimates how many different values there are, by HyperLogLog.

    An accumulator takes `2 ** precision` bytes at most, however many values there are. The standard
    error is `1.04 / sqrt(2 ** precision)`: 1.6 % by default; a few hundred values are counted
    nearly exactly. Numbers that are equal, such as 1 and 1.0, are one value.

    Args:
        of: Returns the value of a message: a str, bytes or a number; by default, messages are
            values themselves.
        precision: 4 to 21; each step up doubles the bytes.

    Raises:
        ModuleNotFoundError: The extra is not installed; there are no wheels for Python 3.14 yet.
        TypeError: *of* cannot be called with a message.
        WallarooParameterError: *precision* is out of range.

    Example:
        >>> users = ApproxDistinct()
        >>> accumulator = users.initial_accumulator()
        >>> for user in "ada", "bob", "ada":
        ...     users.update(user, accumulator)
        >>> users.value(accumulator)
        2

    Source: P. Flajolet et al., HyperLogLog, 2007; https://datasketches.apache.org/docs/HLL.
    """

    @overload
    def __init__(self: ApproxDistinct[str | bytes | float], *, precision: int = 12) -> None: ...

    @overload
    def __init__(self, of: Callable[[In], str | bytes | float], *, precision: int = 12) -> None: ...

    def __init__(self, of: Callable[[In], Any] = itself, *, precision: int = 12) -> None:
        self._of = checked_function("of", of)
        self._precision = integer("precision", precision)
        if precision not in _PRECISIONS:
            msg = f"precision is {precision}; expected 4 to 21"
            raise WallarooParameterError(msg)
        required("datasketches", "ApproxDistinct", "wallaroo[sketches]")

    def counted(self, message: In) -> str | float:
        """Return the value as the library distinguishes values."""
        return _distinguished(self._of(message))

    def reduce(self, values: list[Any]) -> list[Any]:
        """Merge sketches, or add a value to one."""
        import datasketches

        sketches = [
            datasketches.hll_sketch.deserialize(value)
            for value in values
            if isinstance(value, bytes)
        ]
        if len(sketches) > 1:
            union = datasketches.hll_union(self._precision)
            for one in sketches:
                union.update(one)
            sketch = union.get_result(datasketches.tgt_hll_type.HLL_8)
        else:
            kind = datasketches.tgt_hll_type.HLL_8
            sketch = sketches[0] if sketches else datasketches.hll_sketch(self._precision, kind)
        for value in values:
            if not isinstance(value, bytes):
                sketch.update(value)
        return [sketch.serialize_compact()]

    def value(self, accumulator: list[bytes]) -> int:
        """Return the estimate, rounded."""
        import datasketches

        estimate: float = datasketches.hll_sketch.deserialize(accumulator[0]).get_estimate()
        return round(estimate)


def _distinguished(value: Any) -> str | float:
    """The text or number that is the same for equal values alone.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, bytes):
        return f"b{value.decode('latin-1')}"
    if isinstance(value, float) and not value.is_integer():
        return value
    if isinstance(value, int | float):
        number = int(value)
        return number if number in _INTEGERS else f"i{number:x}"
    msg = f"ApproxDistinct counts texts, bytes and numbers, not {value!r:.100}; return str(…) of it"
    raise TypeError(msg)
