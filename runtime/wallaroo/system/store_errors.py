"""Errors of an object store, by what the SDK of AWS says of a request that failed."""

from __future__ import annotations

import re

from wallaroo.errors import DamagedFile, RuntimeFailure

CHANGED = "Response checksums mismatch"
"""What the SDK says if the content that has arrived does not match the checksum of the object."""
_GONE = re.compile(r"AWS Error (?:NO_SUCH_KEY|RESOURCE_NOT_FOUND) during")
_NO_BUCKET = "AWS Error NO_SUCH_BUCKET"
_REFUSED = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|MISSING_AUTHENTICATION"
    r"|UNRECOGNIZED_CLIENT|[A-Z_]*SIGNATURE)|HTTP status 403|(?i:access key id)"
)
"""What it says where credentials are missing, wrong, or permit too little."""
_VARYING = re.compile(
    r"^When .*?: (?=AWS Error)| \(Request ID: [^)]*\)"
    r"| after [0-9]+ m(?:illi)?s(?:econds)?(?: with [0-9]+ (?:out of [0-9]+ )?bytes received)?"
)
"""What differs from one attempt to the next: the temporary name of an object, and such."""


def failure_of(path: str, said: str, store: str | None) -> Exception:
    """The error to raise for a request that failed, with the same message if it fails so again.

    Args:
        path: The object, or the folder of objects.
        said: What the SDK said.
        store: The URL of the store that the environment names.

    Example:
        >>> failure_of("s3a://bucket/votes", "AWS Error NO_SUCH_BUCKET during PutObject", None)
        RuntimeFailure('s3a://bucket/votes: there is no such bucket; create it first')
    """
    if _GONE.search(said):
        return FileNotFoundError(2, "No such object", path)
    if _NO_BUCKET in said:
        return RuntimeFailure(f"{path}: there is no such bucket; create it first")
    if CHANGED in said:
        msg = f"{path} is damaged: its content does not match its checksum; restore it from a copy"
        return DamagedFile(msg)
    reason = _VARYING.sub("", said)
    if _REFUSED.search(said):
        return RuntimeFailure(
            f"the object store refuses {path}: check the credentials (AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, a profile, or a role) and what they permit ({reason})"
        )
    named = "" if store is None else f"; the environment names {store}"
    return RuntimeFailure(f"{path} cannot be reached: {reason}{named}")
