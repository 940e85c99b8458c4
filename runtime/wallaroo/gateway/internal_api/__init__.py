"""The gateway's API for engines and commands, over Arrow Flight: both ends of it."""
