"""The engine that runs chunks of messages on Spark's real-time mode, a few milliseconds each.

Modules whose names say `gateway` or nothing of Spark run without it: the gateway uses them, too.
"""
