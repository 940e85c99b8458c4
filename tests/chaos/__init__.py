"""Faults on real processes, with a checker that knows every message: see `make chaos`."""
