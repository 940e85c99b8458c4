"""Metrics of a running application.

`catalogue` defines every metric: name, kind, help text, labels. `samples` transports values between
processes, and `exposition` formats them for Prometheus.
"""
