"""`python -m widetable`: the same as the command `widetable`."""

from widetable.cli.app import main

if __name__ == "__main__":
    main()
