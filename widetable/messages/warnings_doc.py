"""Renders docs/warnings.md from the declared codes. Raises OSError of a file that cannot be written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from widetable.messages.warning_code import Said, WarningCode

_HEAD: Final = """# Warnings

What the product warns of does not fail a call: the log (`widetable`, and below it), standard error of a command and
`widetable inspect` say it with a code. The code stays, the wording may change: search, silence and alert by the code.
In Python a log record has it as `record.code`.

```python
import logging

logging.getLogger("widetable").addFilter(lambda record: getattr(record, "code", None) != "WT-W207")
```

A filter of the logger `widetable` sees its own records. Those of Spark are of the logger `widetable.spark`.
Errors say what to do themselves ([kinds of errors](operations.md#a-command-or-a-job-is-refused)).

| code | when it is said | what to do |
|---|---|---|
"""
_CITED: Final = re.compile(r"docs/([\w/-]+\.md)")


def render() -> str:
    """The page."""
    rows = (_row(code.value) for code in WarningCode)
    return _HEAD + _CITED.sub(r"[\1](\1)", "".join(rows))


def _row(said: Said) -> str:
    return f"| `{said.code}` | {said.cause} | {said.action} |\n"


def main(arguments: list[str]) -> None:
    """Write the page to the file named by the only argument, or to standard output without one."""
    if arguments:
        Path(arguments[0]).write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())


if __name__ == "__main__":
    main(sys.argv[1:])
