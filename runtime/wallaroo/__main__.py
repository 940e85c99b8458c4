"""`python -m wallaroo` runs the command `wallaroo`."""

from __future__ import annotations

from wallaroo_command import main

if __name__ == "__main__":
    main()
