"""The gateway's API for drivers and commands, over HTTP: both ends of it."""
