"""The process of the command `widetable`. An interrupt while its modules are imported ends it as the shell expects, and
without a traceback; from then on the command has it (app.py).

    the shell's Ctrl-C    while modules are imported    the system ends the process by the signal, as `cat` would end
                          then                          KeyboardInterrupt, which becomes exit code 130

An interrupt inside an import would print a traceback of whichever library that was.
"""

from __future__ import annotations

import signal
from importlib import import_module


def run() -> int:
    """The entry point; out: the exit code."""
    is_pythons = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_pythons:  # not where the shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = import_module("widetable.cli.app").main
    if is_pythons:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = main()
    return code
