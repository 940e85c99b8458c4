"""Spark itself: its session and Java, worker processes, executors, checkpoints."""
