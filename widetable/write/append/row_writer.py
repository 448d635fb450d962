"""What the writers of both kinds of tables have in common: `TableWriter` of tables with a key, `AppendWriter` of append
tables.

Raises InvalidError for a writer that is no longer open, and what the methods of these raise.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, TypeVar

from widetable.errors import InvalidError
from widetable.schema.table_schema import TableSchema
from widetable.write.commit_message import CommitMessage
from widetable.write.row_source import RowSource

_Writer = TypeVar("_Writer", bound="RowWriter")


def check_open(*, is_open: bool) -> None:
    """Refuse to go on with a writer that has finished or was aborted."""
    if not is_open:
        raise InvalidError(
            "table writer",
            found="a writer that was finished or aborted",
            expected="an open writer",
            action="Create a new writer for more rows.",
        )


class RowWriter(Protocol):
    """Writes rows of one set of columns. Call `write` any number of times, then `finish` once, or `abort`."""

    @property
    def schema(self) -> TableSchema:
        """The schema that defines the writer's columns."""

    def write(self, data: Any) -> None:
        """Add rows; an error aborts the writer."""

    def write_source(self, source: RowSource) -> list[CommitMessage]:
        """Write all rows of a source, and finish."""

    def finish(self) -> list[CommitMessage]:
        """Write the files of all rows, and return one message or more for each bucket with rows."""

    def abort(self) -> None:
        """Remove all files. Never call it after a commit of them was tried."""

    def __enter__(self: _Writer) -> _Writer: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
