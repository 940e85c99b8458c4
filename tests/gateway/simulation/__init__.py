"""The gateway in a simulated world: its clock, its disk, its peers, and all that fails."""
