"""Engines: what runs an application's dataflow, behind one interface.

`base` is the interface, `gateway_api` what an engine needs of the gateway. `realtime` is the engine
on Spark's real-time mode, `spark` what any engine on Spark needs.
"""
