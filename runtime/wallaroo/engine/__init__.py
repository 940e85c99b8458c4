"""Running an application: the code of its steps over batches, its state, and Spark underneath.

`ports` says what the engine needs of the world (a journal to read, an outbox to fill), `program`
runs user code over batches, `entities` keeps state, `spark` puts them on Structured Streaming.
Nothing here opens a socket to the outside or knows how the edge keeps its promises.
"""
