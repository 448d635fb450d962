"""`python -m widetable`: the same as the command `widetable`."""

import sys

from widetable.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
