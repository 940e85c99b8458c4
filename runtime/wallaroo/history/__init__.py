"""The history of an application, read from its gateway's log: what made its state what it is.

The log has each message and each published change of state. `records` and `publications` read it;
`rerun` runs the messages of a publication again, from the state as it was before; `explanation`
puts both together for one key, and says where they disagree.
"""
