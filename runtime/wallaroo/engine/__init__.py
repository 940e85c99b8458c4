"""The engine: what runs an application's dataflow, on Spark.

`realtime` runs chunks of messages on Spark's real-time mode, `spark` starts Spark and knows its
checkpoints, and `settings` and `stored` are what the rest of the runtime says of both.
"""
