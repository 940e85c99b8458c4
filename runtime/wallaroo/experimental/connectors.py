"""Names that Wallaroo's connector scripts imported; none of them is supported."""

from typing import TYPE_CHECKING

from wallaroo.api.unsupported import EXPERIMENTAL, unsupported_names

if not TYPE_CHECKING:  # type checkers must keep reporting unknown names
    __getattr__ = unsupported_names(__name__, EXPERIMENTAL)
