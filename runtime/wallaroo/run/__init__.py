"""Running an application: what starts, supervises and stops its parts.

`local` runs all parts on one machine, `cluster` is the driver on a cluster, and `lifecycle` is what
they share. `settings` holds the settings that the commands fill.
"""
