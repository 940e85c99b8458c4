"""The log: numbered records, appended to files that are replaced by new ones when they are full.

It knows nothing of what the records mean. `log` appends, `recovery` reads everything at a start,
`scan` reads along from another process; `records` and `segments` are the format on disk.

What a power failure may leave behind is any part of what was written since the last sync, in any
order. Each record therefore says how far the log was on disk when it was appended: a record that
is not whole is the torn end of the log unless a later one proves that it was on disk; then it is
damage, and is never passed over silently.
"""
