"""Environment variables in settings, and what of them is secret."""

from __future__ import annotations

import re

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""What stands for an environment variable."""
