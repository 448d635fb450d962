"""Renders docs/errors.md from the declared codes. Raises OSError of a file that cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from widetable.messages.error_code import Coded, ErrorCode

_HEAD: Final = """# Errors

Every error of widetable is of one of six kinds, which say what the caller must do. It names its subject, what was
found, what was expected, and an action. Its `code` stays the same in all versions. The wording may change.

```python
import widetable as wt

try:
    wt.Table.open("/tmp/no-such-table")
except wt.NotFoundError as error:
    print(error.code, error.subject)
```

```text
WT-E201 /tmp/no-such-table
```

Code 100, 200, .. 600 is the general one of a kind. An error that has it may get a code of its own in a later version.
Compare general errors by their kind, and others by their code. `str(error)` does not contain the code.

"""
_KINDS: Final = {
    "1": "`InvalidError`: the call, an option or the data is wrong",
    "2": "`NotFoundError`: what the call names does not exist",
    "3": "`UnsupportedError`: this version does not support it",
    "4": "`DamagedError`: bytes on disk are not what they must be",
    "5": "`ConflictError`: somebody else committed first",
    "6": "`StorageError`: the storage refused",
}


def render() -> str:
    """Return the page."""
    return _HEAD + "\n".join(_section(digit, title) for digit, title in _KINDS.items())


def _section(digit: str, title: str) -> str:
    codes = [code.value for code in ErrorCode if code.code.startswith(f"WT-E{digit}")]
    rows = "".join(map(_row, codes))
    return f"## {title}\n\n| code | when an error has it | what to do |\n|---|---|---|\n{rows}"


def _row(coded: Coded) -> str:
    return f"| `{coded.code}` | {coded.cause} | {coded.action} |\n"


def main(arguments: list[str]) -> None:
    """Write the page to the file named by the only argument, or to standard output without one."""
    if arguments:
        Path(arguments[0]).write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())


if __name__ == "__main__":
    main(sys.argv[1:])
