"""What the metrics of the micro-batch engine are about: batches."""

from __future__ import annotations

from wallaroo.engine.base import Unit
from wallaroo.metrics import catalogue

BATCH = Unit(
    "batch",
    {
        "wait": "waiting for messages",
        "plan": "planning",
        "log": "writing the plan",
        "run": "processing",
        "commit": "committing",
    },
    catalogue.BATCH_MESSAGES,
    catalogue.BATCH_SECONDS,
)
