"""Files of frames or lines as sources and sinks."""
