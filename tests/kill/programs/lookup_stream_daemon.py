"""What Spark starts as the daemon of Python workers in `lookup_stream.py`: it runs this module as a program."""

from __future__ import annotations

from tests.kill.programs.lookup_stream import daemon

if __name__ == "__main__":
    daemon()
