"""The boundary to user code: which functions call it, and what it raises."""
