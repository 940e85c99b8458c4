"""Runs user code over chunks of messages, and keeps its state.

`program` prepares an application for execution. `router` runs the first stage, from frames to
messages for the buckets of their keys; `exchange`, `packing` and `snapshots` transfer them;
`worker` runs the stateful stages; `entities` keeps the state. `records` defines the input and the
report of a task. Nothing here depends on Spark or sockets: the engine calls it.
"""
