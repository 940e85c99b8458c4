"""Engines: what runs an application's dataflow, behind one interface.

`base` is the interface, `gateway_api` what an engine needs of the gateway. `microbatch` is the
engine on Spark Structured Streaming, `spark` what any engine on Spark needs.
"""
