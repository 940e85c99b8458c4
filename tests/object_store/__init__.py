"""State on an object store: the real server versitygw, and a network that fails."""
