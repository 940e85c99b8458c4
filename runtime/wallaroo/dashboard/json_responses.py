"""Answers of the dashboard as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import Response


def json_response(content: Any, status: int = 200) -> Response:
    """*content* as JSON in ASCII: texts can contain unpaired surrogates, which UTF-8 lacks."""
    return Response(json.dumps(content), status, media_type="application/json")


def finite(value: Any) -> Any:
    """*value* with the names of the numbers that JSON lacks: NaN and the infinities.

    Example:
        >>> finite({"rate": [1.5, float("-inf")]})
        {'rate': [1.5, '-Infinity']}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value
