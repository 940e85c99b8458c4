"""Keys: which values can be one, when two are equal, and the bucket of each."""
