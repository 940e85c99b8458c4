"""`python -m wallaroo` runs the command `wallaroo`."""

from wallaroo.cli.main import main

main()
