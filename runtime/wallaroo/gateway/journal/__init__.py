"""The journal: every accepted message on disk, until a checkpoint has what came of it."""
