"""The process of the command `widetable`. An interrupt during its imports ends it as the shell expects, and without a
traceback; after the imports the command handles interrupts (app.py).

    the shell's Ctrl-C    while modules are imported    the system ends the process by the signal, as `cat` would end
                          afterwards                    KeyboardInterrupt, which becomes exit code 130

Otherwise an interrupt inside an import would print a traceback of the imported library.
"""

from __future__ import annotations

import signal
from importlib import import_module


def run() -> int:
    """Run the command line of the process; return the exit code."""
    is_pythons = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_pythons:  # it is not, if the shell ignores the signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = import_module("widetable.cli.app").main
    if is_pythons:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = main()
    return code
