"""The six kinds of error, named by what the caller must do.

    WidetableError
    ├── InvalidError       your call, option or data is wrong: fix it and call again
    ├── NotFoundError      the table, snapshot, tag or column is not there: check the name
    ├── UnsupportedError   the table needs something this version does not honour: use another client or alter the table
    ├── DamagedError       bytes on disk are not what they must be: restore the file, or go back to an older snapshot
    ├── ConflictError      somebody else committed first and the result cannot be kept: plan again
    └── StorageError       the storage refused (disk full, permission, lost): mend it and retry by the same identifier

Every error names its subject (a file, column, option or table), what was found, what was expected and what to do.
The kind, these four parts and the code (`error_code`) are the contract; the wording of the message is not.

What is none of them (a TypeError, an AssertionError) is a fault of this package; so nothing turns
unknown errors into one of the six (0019). MemoryError, KeyboardInterrupt and what a caller's own
iterators and callbacks raise pass as they are.
"""

from __future__ import annotations

from typing import ClassVar

from widetable.messages.error_code import ErrorCode

__all__ = [
    "ConflictError",
    "DamagedError",
    "InvalidError",
    "NotFoundError",
    "StorageError",
    "UnsupportedError",
    "WidetableError",
]


class WidetableError(Exception):
    """Root of all errors of this package; never raised itself.

    subject: the file, column, option or table it is about; found, expected: facts, already as text;
    action: what the caller should do, an imperative sentence; code: a stable code such as "WT-E204" (docs/errors.md).

        str(error)    "<subject>: found <found>; expected <expected>. <action>"
    """

    __module__ = "widetable"
    _general: ClassVar[ErrorCode] = ErrorCode.INVALID

    def __init__(
        self,
        subject: str,
        *,
        found: str,
        expected: str,
        action: str,
        code: ErrorCode | str | None = None,
    ) -> None:
        super().__init__(subject, found, expected, action)
        self.code = code if isinstance(code, str) else (code or self._general).code
        self.subject = subject
        self.found = found
        self.expected = expected
        self.action = action

    def __str__(self) -> str:
        return f"{self.subject}: found {self.found}; expected {self.expected}. {self.action}"

    @property
    def facts(self) -> str:
        """Without what to do: for who goes on in spite of it, where the action would speak of another call."""
        return f"{self.subject}: found {self.found}; expected {self.expected}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers to the driver: keep them picklable with keyword-only arguments.
        parts = (self.subject, self.found, self.expected, self.action, self.code)
        return _rebuild, (type(self), *parts)


# At module level, where pickle finds it by name.
def _rebuild(
    kind: type[WidetableError], subject: str, found: str, expected: str, action: str, code: str
) -> WidetableError:
    return kind(subject, found=found, expected=expected, action=action, code=code)


class InvalidError(WidetableError):
    """Your call, option or data is wrong: fix it and call again."""

    __module__ = "widetable"


class NotFoundError(WidetableError):
    """The table, snapshot, tag or column is not there: check the name."""

    __module__ = "widetable"
    _general = ErrorCode.NOT_FOUND


class UnsupportedError(WidetableError):
    """The table needs something this version does not honour, and it is refused rather than ignored.

    An option that were ignored could change which rows a table has.
    """

    __module__ = "widetable"
    _general = ErrorCode.UNSUPPORTED


class DamagedError(WidetableError):
    """Bytes on disk are not what they must be; nothing was changed."""

    __module__ = "widetable"
    _general = ErrorCode.DAMAGED


class ConflictError(WidetableError):
    """Somebody else committed first and this result cannot be kept: plan again on the newest snapshot.

    Nothing of it is in the table.
    """

    __module__ = "widetable"
    _general = ErrorCode.CONFLICT


class StorageError(WidetableError):
    """The storage refused the operation: mend it and retry. What is there is whole.

    Nothing was committed, but where publishing the snapshot itself failed, of which it may not be
    known. A commit that is repeated with the same user and identifier is in once, whichever it was.
    """

    __module__ = "widetable"
    _general = ErrorCode.STORAGE
