"""The dashboard of a running application: its state now and during the last minutes.

`watch` polls the application, as described in `watched`, and keeps the results; `server` serves
them to browsers, as a page and as server-sent events; `rates` computes rates and percentiles from
counters and histograms; `dead_letters` changes what the token allows to change.
"""
