"""Running an application: what starts, supervises and stops its parts.

`local` runs all of it on one machine, `cluster` is the driver on a cluster. The commands are thin
layers over this.
"""
