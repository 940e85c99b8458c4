"""Parts of applications that tests write to files."""

from __future__ import annotations

COUNTING = """\
import wallaroo


class Counting(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, message, accumulator):
        accumulator[0] += 1

    def combine(self, one, other):
        return [one[0] + other[0]]
"""
"""The beginning of an application that counts messages; a subclass of `Counting` has `output`."""
