"""The model of an application: pipelines of source, steps and sinks over named states.

`resolve` turns the declarations recorded by the API into the `Application` that engines run, or
reports all problems in them. Nothing here depends on Spark, sockets or processes.
"""
