"""The state directory of an application: what is in it, and its way elsewhere."""
