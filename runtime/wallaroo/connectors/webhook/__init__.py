"""Webhooks: outputs out, by POST."""
