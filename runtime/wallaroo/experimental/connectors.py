"""What Wallaroo's connector scripts imported; none of it is offered."""

from typing import TYPE_CHECKING

from wallaroo.api.not_offered import EXPERIMENTAL, refusing

if not TYPE_CHECKING:  # type checkers know the names that there are
    __getattr__ = refusing(__name__, EXPERIMENTAL)
