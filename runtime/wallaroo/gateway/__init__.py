"""The gateway: the process that owns the sockets, the journal and the outbox.

Data goes through it in one direction: a source's connector cuts messages and gives them to the
`journal`, the engine takes them from there and leaves outputs in the `outbox`, both over the
sockets of `chunks`, and a sink's connector delivers those. Drivers and commands use the
`internal_api`. Messages are bytes here: of an application's code it uses only how frames are cut,
and its own sources and sinks.
"""
