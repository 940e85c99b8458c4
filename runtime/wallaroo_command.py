"""The command `wallaroo`: how it answers signals while the package is loaded.

It is not part of the package: importing a module of that would import the whole package first,
which takes a good part of a second on a busy machine.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

_INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended, as of a shell."""


def main() -> None:
    """Run the command.

    Loading it takes up to some seconds on a busy machine. A signal that arrives meanwhile ends it
    at once, and without a traceback.
    """
    runs = sys.argv[1:2] == ["run"]
    interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # as in the background
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(0 if runs else _INTERRUPTED))
    if runs:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    gc.disable()  # as `wallaroo.system.imports` says
    from wallaroo.cli.main import main as command
    from wallaroo.cli.main import preload

    preload(sys.argv[1:2])
    gc.freeze()
    gc.enable()
    if interruptible and not runs:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()
