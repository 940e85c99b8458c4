"""Lets the reference show the section `Example:` of docstrings as code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Calls the section by the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_kwargs: Any) -> None:
        """Rename it in the docstring of *obj*."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
