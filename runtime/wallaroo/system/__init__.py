"""Operating-system facilities: atomic writes, locks, TLS, disk space, processes.

Nothing here is specific to this package.
"""
