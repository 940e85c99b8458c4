"""The command `wallaroo`: how it answers signals while the package is loaded.

It is not part of the package: importing a module of that would import the whole package first,
which takes a good part of a second on a busy machine.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading

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
    try:
        command()
    except SystemExit as ending:
        _leave_threads(ending.code)
        raise


def _leave_threads(code: object) -> None:
    """End the process if threads are left that Python would wait for: those of an application.

    One that starts a thread when it is imported would let a command such as `check` never end.
    """
    left = [one.name for one in threading.enumerate() if not one.daemon]
    left.remove(threading.main_thread().name)
    if not left:
        return
    names = ", ".join(map(ascii, left))
    print(f"Not waiting for threads of the application: {names}", file=sys.stderr)
    atexit._run_exitfuncs()  # noqa: SLF001 - what Python would do after these threads
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
