"""The edge, one process that owns the sockets: the gateway.

Data goes through it in one direction: `ingress` cuts frames and gives them to the `journal`, as
`feeder` does with what it reads, the engine takes them from there over `service` and leaves outputs
in the `outbox`, `egress` and `writer` bring those to the sinks. `client` is the engine's end of
`service`. Bytes of messages are all it handles: of an application's code it uses only how frames
are cut, and its own sources and sinks.
"""
