"""Running user code over chunks of messages, and keeping its state.

`program` is the application made ready to run. `router` runs the first stage, from frames to
messages for the buckets of their keys; `exchange`, `packing` and `snapshots` are how they cross;
`worker` runs the stages with state; `entities` keeps it. What a task takes and reports is in
`records`. Nothing here knows of Spark, of batches or of sockets: engines call it.
"""
