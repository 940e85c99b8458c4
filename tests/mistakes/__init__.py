"""Mistakes of newcomers, and what they are told: an application for each, and the text as gold."""
