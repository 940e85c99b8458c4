"""The engine on Spark Structured Streaming.

`session` starts Spark, `source` reads the journal and runs the first stage, `processor` runs the
second stage over the state store, `query` puts them together and commits each batch at the edge.
"""
