"""Dead letters: messages that could not be processed, until they are replayed or dropped."""
