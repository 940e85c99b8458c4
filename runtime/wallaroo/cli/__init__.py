"""The command `wallaroo`: one module for each subcommand, and what they share."""
