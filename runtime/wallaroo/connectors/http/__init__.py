"""HTTP: messages in, by POST."""
