"""The command `wallaroo`: a module for each subcommand, and their shared options."""
