"""The journal: every accepted message on disk, until a batch has consumed it."""
