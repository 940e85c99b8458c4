"""Server-sent events: outputs for browsers."""
