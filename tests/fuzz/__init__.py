"""Hostile input: what is kept in `seeds` from earlier findings and by hand, and what is like it."""
