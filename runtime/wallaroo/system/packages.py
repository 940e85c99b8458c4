"""Packages that an installation has only with an extra."""

from __future__ import annotations

import importlib
from typing import Any


def required(package: str, what: str, extra: str = "wallaroo[codecs]") -> Any:
    """Import *package* for *what*, which is the name of a part of the API.

    Raises:
        ModuleNotFoundError: It is not installed.

    Example:
        >>> required("no_such_package", "a_decoder")
        Traceback (most recent call last):
        ModuleNotFoundError: a_decoder requires no_such_package: install it with \
`pip install 'wallaroo[codecs]'`
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        msg = f"{what} requires {package}: install it with `pip install '{extra}'`"
        raise ModuleNotFoundError(msg, name=package) from None
