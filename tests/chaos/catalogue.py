"""Which faults there are for which engine."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.faults import COMMON, IN_BATCHES, Fault
from tests.chaos.seams import BETWEEN_LEVELS, SEAMS

FAULTS: Mapping[str, Fault] = {**COMMON, **IN_BATCHES, **SEAMS, **BETWEEN_LEVELS}
"""All, by name."""
FAULTS_OF: Mapping[str, Mapping[str, Fault]] = {
    "micro-batch": {**COMMON, **IN_BATCHES},
    "real-time": {**COMMON, **SEAMS},
}
"""Those of each engine, for an application with one level."""


def faults_of(engine: str, application: str) -> Mapping[str, Fault]:
    """The faults for *application* on *engine*."""
    if engine == "real-time" and application != "counting":
        return {**FAULTS_OF[engine], **BETWEEN_LEVELS}
    return FAULTS_OF[engine]
