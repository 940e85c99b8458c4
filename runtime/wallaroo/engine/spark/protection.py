"""Authentication and encryption of the connections to Spark's ports."""

from __future__ import annotations

import re
import secrets

_PROTECTED = {
    "spark.authenticate": "true",
    # AES, with keys that each connection derives from the secret
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    # otherwise a peer could choose an older protocol, without encryption
    "spark.network.crypto.saslFallback": "false",
}


def protected(master: str) -> dict[str, str]:
    """The settings with which Spark's ports accept only processes of the same run, encrypted.

    Local Spark creates the secret itself, and keeps it in its memory. On Kubernetes, it is the
    content of the file that `kubernetes.settings` names. A local cluster gets one through the
    environment of its executors. Any other master exists before the run, and so does its secret.

    Args:
        master: Spark master URL.
    """
    if re.match(r"local-cluster\[", master):
        return {**_PROTECTED, "spark.authenticate.secret": secrets.token_urlsafe(32)}
    return dict(_PROTECTED) if re.match(r"local$|local\[|k8s://", master) else {}
