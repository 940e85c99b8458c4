"""`python -m wallaroo` is the command `wallaroo`."""

from wallaroo.cli.main import main

main()
