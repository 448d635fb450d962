"""Renders docs/warnings.md from the declared codes. Raises OSError for a file that cannot be written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from widetable.messages.warning_code import WarningCode, WarningText

_HEAD: Final = """# Warnings

A warning does not fail a call. It is written with a code to the log (`widetable` and the loggers below it), to the
standard error of a command, and by `widetable inspect`. The code never changes, but the wording may: search, silence
and alert by the code. In Python the code is `record.code` of a log record.

```python
import logging

logging.getLogger("widetable").addFilter(lambda record: getattr(record, "code", None) != "WT-W207")
```

A filter of the logger `widetable` sees only the records of that logger. Spark uses the logger `widetable.spark`.
Errors themselves say what to do ([kinds of errors](operations.md#a-command-or-a-job-is-refused)).

| code | when it is emitted | what to do |
|---|---|---|
"""
_CITED: Final = re.compile(r"docs/([\w/-]+\.md)")


def render() -> str:
    """Return the text of the page."""
    rows = (_row(code.value) for code in WarningCode)
    return _HEAD + _CITED.sub(r"[\1](\1)", "".join(rows))


def _row(warning: WarningText) -> str:
    return f"| `{warning.code}` | {warning.cause} | {warning.action} |\n"


def main(arguments: list[str]) -> None:
    """Write the page to the file named by the only argument, or to standard output if there is none."""
    if arguments:
        Path(arguments[0]).write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())


if __name__ == "__main__":
    main(sys.argv[1:])
