"""Kubernetes, as the driver and the commands use it."""
