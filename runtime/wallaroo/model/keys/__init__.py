"""Keys: which values are valid, which are equal, and the bucket of each."""
