"""Failed calls of the API of Kubernetes, whose client is imported only where it is used."""

from __future__ import annotations


def call_failures(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What a call that fails raises, and *more*."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    return ApiException, HTTPError, *more


def why_failed(error: Exception) -> str:
    """Why a call failed with *error*."""
    if not (reason := getattr(error, "reason", None)):
        return str(error)
    return f"{getattr(error, 'status', None) or ''} {reason}".strip()
