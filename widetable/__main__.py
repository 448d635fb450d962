"""`python -m widetable`: the same as the command `widetable`.

For an interpreter whose directory of commands is not in PATH. The exit code is the command's (cli/program.py).
"""

import sys

from widetable.cli.program import run

if __name__ == "__main__":
    sys.exit(run())
