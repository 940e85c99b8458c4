"""Checks that journal, outbox and checkpoint belong together."""
