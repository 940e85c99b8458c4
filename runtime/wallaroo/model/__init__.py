"""What an application means: pipelines of source, steps and sinks over named state partitions.

`resolve` turns what the API recorded into the one `Application` that engines run, or says all that
is wrong with it. Nothing here knows of Spark, of sockets or of processes.
"""
