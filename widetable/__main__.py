"""`python -m widetable` runs the command `widetable`, for interpreters whose directory of commands is not in PATH.

The exit code is that of the command (cli/program.py).
"""

import sys

from widetable.cli.program import run

if __name__ == "__main__":
    sys.exit(run())
