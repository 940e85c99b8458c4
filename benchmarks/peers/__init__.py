"""What is measured beside ours: bare Python, and other stream processors."""
