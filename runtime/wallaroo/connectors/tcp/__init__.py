"""TCP: framed messages in, framed outputs out."""
