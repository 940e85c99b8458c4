"""Authentication for the internal API: the token, and the lease of one driver.

Token and fencing token are headers of each call. A call without a fencing token is answered, such
as a command that shows the status. A call with the fencing token of an earlier lease is rejected,
whatever it asks for: that driver was presumed dead, and another one may have taken over.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping

from wallaroo.gateway.internal_api.calls import FENCING_HEADER, REFUSED, TOKEN_HEADER
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.system.token_attempts import Guesses

_LONGEST_NUMBER = 18
"""Digits of a fencing token at most."""


class Declined(Exception):
    """A call is not answered.

    Args:
        status: Status of the HTTP response.
        code: What programs read, see `calls`.
        reason: What people read.
    """

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code = status, code


class Authenticator:
    """Decides which calls the gateway answers.

    Args:
        token: The token that callers must send; None to accept all calls, on a Unix socket.
        leases: Knows which driver may use the gateway.
        guesses: Counts and logs wrong tokens.
    """

    def __init__(self, token: str | None, leases: Leases, guesses: Guesses | None = None) -> None:
        self._token = None if token is None else f"Bearer {token}".encode()
        self._leases = leases
        self._guesses = guesses or Guesses()

    def admit(self, headers: Mapping[str, str], peer: str, action: str) -> None:
        """Accept a call.

        A right token passes whatever wrong ones came from its address, which others may share.

        Args:
            headers: Headers of the call, with names in lower case.
            peer: Address of the caller; empty on a Unix socket.
            action: What is called.

        Raises:
            Declined: The caller may not use the gateway.
        """
        shown = headers.get(TOKEN_HEADER, "")
        if self._token is not None and not hmac.compare_digest(
            shown.encode("latin-1"), self._token
        ):
            raise self._wrong(shown, peer, action)
        claim = headers.get(FENCING_HEADER, "")
        if claim:
            number = int(claim) if claim.isdecimal() and len(claim) <= _LONGEST_NUMBER else -1
            problem = self._leases.problem(number)
            if problem is not None:
                raise Declined(403, REFUSED, problem)

    def _wrong(self, shown: str, peer: str, action: str) -> Declined:
        """Why a call without the token is not answered."""
        if wait_s := self._guesses.wait_s(peer):
            reason = f"too many wrong tokens came from {peer}: try again in {math.ceil(wait_s)} s"
            return Declined(429, REFUSED, reason)
        reason = (
            "the token is not this gateway's"
            if shown
            else "authentication required: no token was sent"
        )
        self._guesses.note_wrong(peer, reason, action=action)
        return Declined(401, REFUSED, reason)
