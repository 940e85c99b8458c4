"""The gateway's side of the real-time engine: hands out chunks, publishes what they led to."""
