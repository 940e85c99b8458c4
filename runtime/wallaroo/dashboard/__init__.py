"""A running application to look at: what happens in it now, and in the last minutes.

`watch` looks at it every second and keeps what it saw; `server` shows that in a browser, as a page
and as events; `figures` makes rates and percentiles of counters and histograms.
"""
