"""Tokens for OAUTHBEARER, from a function of the application."""

from __future__ import annotations

import time
from datetime import datetime

from wallaroo.connectors.kafka.settings import ClientSettings
from wallaroo.connectors.kafka.topic import TokenFunction, Topic
from wallaroo.errors import RuntimeFailure
from wallaroo.user_code.exceptions import describe_error

OAUTH, SASL = "OAUTHBEARER", "SASL_SSL"
"""The mechanism, and the protocol unless the settings have another one."""
NO_TOKEN = ("none", 0.0)
"""What stands for a token that is none: librdkafka asks again."""
_LONGEST_S = 10 * 365 * 86_400


class Tokens:
    """Gives librdkafka what the function of the application returns.

    Args:
        function: The function.

    Example:
        >>> tokens = Tokens(lambda: ("token", 1_700_000_000))
        >>> tokens(""), tokens.problem
        (('none', 0.0), 'returned a token that has expired: seconds since the Unix epoch are \
expected')
    """

    def __init__(self, function: TokenFunction) -> None:
        self._function = function
        self.problem: str | None = None
        """What was wrong with what the function did last."""

    def __call__(self, _config: str) -> tuple[str, float]:
        """A token, which is not valid if the function gives none, and when it expires."""
        found = self._taken()
        self.problem = found if isinstance(found, str) else None
        return NO_TOKEN if isinstance(found, str) else found

    def _taken(self) -> tuple[str, float] | str:
        """The token, or what is wrong."""
        try:
            found = self._function()
        except Exception as error:
            return f"raised {describe_error(error)}"
        match found:
            case (str(token), datetime() as expires) if expires.tzinfo is not None:
                until = expires.timestamp()
            case (str(token), int() | float() as until) if not isinstance(until, bool):
                pass
            case _:
                due = "a token and when it expires: a datetime with a time zone, or seconds"
                return f"returned an object of class {type(found).__name__}; expected {due}"
        left_s = until - time.time()
        if not 0 < left_s < _LONGEST_S:
            when = "has expired" if left_s <= 0 else "expires in more than ten years"
            return f"returned a token that {when}: seconds since the Unix epoch are expected"
        return token, float(until)


def check_oauth(topic: Topic, settings: ClientSettings) -> None:
    """Refuse settings with which the function for tokens of *topic* would not be called.

    Raises:
        RuntimeFailure: They are for another mechanism or protocol.
    """
    options = settings.options
    mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms", OAUTH))
    protocol = str(options.get("security.protocol", SASL)).upper()
    if topic.oauth is not None and (mechanism != OAUTH or not protocol.startswith("SASL_")):
        msg = (
            f"{topic}: oauth= is for sasl.mechanism={OAUTH} and security.protocol={SASL} or "
            f"SASL_PLAINTEXT, not {mechanism} and {protocol}; correct it in {settings.origin}"
        )
        raise RuntimeFailure(msg)
