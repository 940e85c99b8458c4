"""The outbox: outputs on disk, until their sink has them."""
