"""Which faults there are for which engine."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.faults import COMMON, IN_BATCHES, Fault
from tests.chaos.seams import SEAMS

FAULTS: Mapping[str, Fault] = {**COMMON, **IN_BATCHES, **SEAMS}
"""All, by name."""
FAULTS_OF: Mapping[str, Mapping[str, Fault]] = {
    "micro-batch": {**COMMON, **IN_BATCHES},
    "real-time": {**COMMON, **SEAMS},
}
"""Those of each engine."""
