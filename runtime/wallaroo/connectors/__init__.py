"""How messages come in and outputs go out."""
