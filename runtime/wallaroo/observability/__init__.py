"""Logs, health probes and traces."""
