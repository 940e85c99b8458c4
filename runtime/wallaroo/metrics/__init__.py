"""What a running application tells of itself in figures.

`catalogue` has every metric, once: name, kind, help text, labels. `samples` is how figures travel
between processes, `exposition` writes them as Prometheus reads them.
"""
