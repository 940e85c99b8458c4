"""The gateway's side of the engine: hands out chunks, publishes what they led to."""
