"""Generators as sources."""
