"""What a process says of itself: logs, health probes, traces."""
