"""Copies of a state directory that is in use: made, kept, and restored."""
