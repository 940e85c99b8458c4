"""Sources and sinks: a folder for each kind."""
