"""A module whose page is made: shelves, and `Book.title` of docs/index.md."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from widetable import CommitResult

__all__ = ["Book", "Table", "find"]


@dataclass(frozen=True)
class Book:
    """What lies on a `Table`."""

    title: str
    """As printed: a < b & c."""


class Table:
    """Carries books.

    size: of the table.

        Table(3)  # `Book` is code here
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def put(self, books: pa.Table, at: int = 0, gently: bool = True) -> CommitResult:
        """Puts them down; `find` finds them. books: rows. at: where; it is
        at: the left by default.

        at, gently: see docs/index.md.
        """
        raise NotImplementedError

    @staticmethod
    def clean(cloth: str) -> None:
        """With a cloth."""

    def take(self, title: str, gently: bool = True) -> str:
        """Take a book.

        Parameters
        ----------
        title : str
            Of the book; `find` knows
            where it is.
        gently : bool, default True
            Whether pages stay.

        Returns
        -------
        str
            The book.

        Examples
        --------
        One book is there.

        >>> Table(3).take("Emma")
        'Emma'
        """
        raise NotImplementedError

    @property
    def size(self) -> int:
        """In feet."""
        return self._size

    def _hidden(self) -> None: ...


def find(title: str) -> str | None:
    """`Table.put` put it; `nothing` else is known."""
