"""`python -m widetable`: the same as the command `widetable`."""

import sys

from widetable.cli.program import run

if __name__ == "__main__":
    sys.exit(run())
