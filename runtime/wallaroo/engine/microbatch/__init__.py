"""The engine that runs batches on Spark Structured Streaming.

`source` reads the journal and runs the first stage, `processor` runs the stages with state over
Spark's state store, `query` puts them together and publishes each batch at the gateway.
"""
