"""Whether journal, outbox and checkpoint belong together."""
