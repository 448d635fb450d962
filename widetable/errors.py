"""The six kinds of error, named by what the caller must do.

    WidetableError
    ├── InvalidError       your call, option or data is wrong: correct it and call again
    ├── NotFoundError      the table, snapshot, tag or column does not exist: check the name
    ├── UnsupportedError   the table needs what this version does not support: use another client or alter the table
    ├── DamagedError       bytes on disk are not what they must be: restore the file, or go back to an older snapshot
    ├── ConflictError      another commit came first and the result cannot be kept: plan again
    └── StorageError       the storage refused (disk full, permission, lost): correct it, retry by the same identifier

Every error names its subject (a file, column, option or table), what was found, what was expected and what to do.
The kind, these four parts and the code (`error_code`) are the contract; the wording of the message is not.

Any other error (a TypeError, an AssertionError) is a fault of this package, so nothing turns unknown errors into one of
the six kinds (0019). MemoryError, KeyboardInterrupt and the errors of a caller's own iterators and callbacks pass
unchanged.
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
    """The root of all errors of this package; it is never raised itself.

    As text an error is `<subject>: found <found>; expected <expected>. <action>`. Errors are picklable.

    Parameters
    ----------
    subject : str
        The file, column, option or table that the error is about.
    found : str
        What was found.
    expected : str
        What was expected.
    action : str
        What the caller should do, an imperative sentence.
    code : ErrorCode or str, default None
        A stable code, such as `WT-E204` (docs/errors.md). None: the general code of the kind.

    Examples
    --------
    >>> import widetable as wt
    >>> try:
    ...     wt.Catalog("warehouse").table("shop.users")
    ... except wt.WidetableError as error:
    ...     print(error.code, error.subject, "|", error.action)
    WT-E201 table 'shop.users' | Check the name, or make the table first.
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
        """The text without the action, for a caller that continues in spite of the error."""
        return f"{self.subject}: found {self.found}; expected {self.expected}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers to the driver, so they must be picklable with keyword-only arguments.
        parts = (self.subject, self.found, self.expected, self.action, self.code)
        return _rebuild, (type(self), *parts)


# At module level, because pickle imports it by name.
def _rebuild(
    kind: type[WidetableError], subject: str, found: str, expected: str, action: str, code: str
) -> WidetableError:
    return kind(subject, found=found, expected=expected, action=action, code=code)


class InvalidError(WidetableError):
    """A call, option or data of the caller is wrong: correct it and call again."""

    __module__ = "widetable"


class NotFoundError(WidetableError):
    """A table, snapshot, tag or column does not exist: check the name."""

    __module__ = "widetable"
    _general = ErrorCode.NOT_FOUND


class UnsupportedError(WidetableError):
    """The table needs something that this version does not support.

    It is refused rather than ignored: an ignored option could change which rows a table has. Use another client, or
    alter the table.
    """

    __module__ = "widetable"
    _general = ErrorCode.UNSUPPORTED


class DamagedError(WidetableError):
    """Bytes on disk are not what they must be. Nothing was changed."""

    __module__ = "widetable"
    _general = ErrorCode.DAMAGED


class ConflictError(WidetableError):
    """Another commit came first, and this result cannot be kept. Plan again on the newest snapshot.

    Nothing of the result is in the table.
    """

    __module__ = "widetable"
    _general = ErrorCode.CONFLICT


class StorageError(WidetableError):
    """The storage refused the operation: correct the cause and retry. Existing data is whole.

    Nothing was committed, unless publishing the snapshot itself failed: then the outcome may be unknown. A commit that
    is repeated with the same user and identifier is made once in either case.
    """

    __module__ = "widetable"
    _general = ErrorCode.STORAGE
