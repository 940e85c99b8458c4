"""What processes need of the machine they run on: files that are whole, locks, TLS, full disks.

Nothing here knows what the package is for.
"""
