"""The gateway: the process that owns the sockets, the journal and the outbox.

Data goes through it in one direction: a source's connector cuts messages and gives them to the
`journal`, the engine takes them from there over the `internal_api` and leaves outputs in the
`outbox`, and a sink's connector delivers those. Messages are bytes here: of an application's code
it uses only how frames are cut, and its own sources and sinks.
"""
