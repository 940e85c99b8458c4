"""Spark: its session and Java process, worker processes, executors, checkpoints."""
