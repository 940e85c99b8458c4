"""HTTP, as the gateway and the dashboard serve it: within limits for those who connect."""
