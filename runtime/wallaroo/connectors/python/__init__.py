"""Sources and sinks that are implemented in Python, by an application or by other connectors."""
