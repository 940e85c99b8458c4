"""The bytes that sockets carry.

Frames, acknowledgements and numbered outputs are between the gateway and senders and receivers;
`docs/protocol.md` describes them. Chunks and their reports are between the gateway and the engine.
"""
