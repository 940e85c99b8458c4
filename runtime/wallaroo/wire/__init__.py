"""What goes over sockets, as bytes: frames, acknowledgements, numbered outputs.

The gateway and the client share it; `docs/protocol.md` describes it.
"""
