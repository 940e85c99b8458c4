"""Results of one chunk after another, by the name that partitions know."""

from __future__ import annotations

from wallaroo.dataflow.results import TaskResults as ChunkResults

__all__ = ["ChunkResults"]
