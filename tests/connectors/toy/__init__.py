"""Queues in memory, by their names: a connector of which the runtime has never heard."""

from __future__ import annotations

from collections import defaultdict
from queue import SimpleQueue

queues: defaultdict[str, SimpleQueue[bytes]] = defaultdict(SimpleQueue)
