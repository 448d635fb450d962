"""The rows of one file, in three forms: Parquet, CSV with a line of names, JSON lines. Read batch by batch.

    file := lines                                     JSON: one object per line; empty lines do not count
          | names row*                                CSV: commas; quotes doubled, and line breaks, in quotes
          | Parquet

Values are texts of `format.parsed_value`; null is JSON's null or a name that the object lacks, in CSV an empty field
without quotes. What is asked for twice is read twice: files are seekable.

In: files, types of columns. Out: names of columns, record batches. Raises InvalidError naming the file and the line or
row of what has another form, OSError and pyarrow's errors of files that cannot be read.

                memory                                what a message names
    Parquet     a batch of Arrow's reader             the column
    JSON        4 MB of lines, at least one line      the line
    CSV         4 MB, up to 256 MB for a long row     the row behind the line of names: a row may have several lines

All values of a column are turned at once; only when that fails is the one looked for that is to blame (`_column`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from widetable.arguments import shown
from widetable.cli.input.text_encoding import check_encoding, decoded
from widetable.errors import InvalidError
from widetable.format.parsed_text import first_refused, parsed_texts
from widetable.format.parsed_value import JsonNumber, parsed
from widetable.schema.types import DataType

# A batch ends at whichever comes first, lines or bytes.
_LINES_AT_ONCE: Final = 65_536
_BYTES_AT_ONCE: Final = 1 << 22
# The largest block: who forgot to close a quote must not make a file of any size one row.
_MOST_BYTES: Final = 1 << 28
# What Arrow says of a row that is longer than a block; texts of rows stand in its other errors.
_BLOCK_IS_SMALL: Final = "straddling object straddles two block boundaries"
_IS_NO_TEXT: Final = "invalid UTF8"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# In each field of the row that is put behind a file of CSV.
_ENDED: Final = "\0end"
Types = Mapping[str, DataType]
Check = Callable[[Collection[str], str], None]


class RowInput(Protocol):
    """Of one file. path: for messages. The file is seekable, and open for as long as the object is used."""

    def __init__(self, file: BinaryIO, path: str) -> None: ...

    def names(self, enough: Collection[str]) -> Sequence[str]:
        """Of the columns; not necessarily more than `enough` when those are there."""

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        """All rows, of the columns `types`, or some of them: a file need not have all, and has its own order. check:
        called with each set of columns that rows have, and whose it is, before these rows are given.
        """


@dataclass(frozen=True)
class ParquetInput:
    """In the file's own types, which the table takes without loss or refuses.

    So its batches do not go by `types`: the writer casts them (`write.safe_cast`).
    """

    file: BinaryIO
    path: str

    def names(self, enough: Collection[str]) -> Sequence[str]:
        return list(pq.read_schema(self.file).names)

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        check(self.names(()), self.path)
        self.file.seek(0)
        yield from pq.ParquetFile(self.file).iter_batches()


@dataclass(frozen=True)
class JsonInput:
    """One line, a few MB of lines at a time.

        {"id": 1, "tags": ["a"]}        a row; a column that the object lacks is null
                                        empty lines count for the number of a line, not as rows

    A line is in memory as a whole, however long it is.
    """

    file: BinaryIO
    path: str

    def names(self, enough: Collection[str]) -> Sequence[str]:
        """Of all objects, in the order of their first line: the file is parsed until `enough` are there."""
        found: dict[str, None] = {}
        for number, line in self._lines():
            found |= dict.fromkeys(self._row(number, line))
            if found.keys() >= set(enough):
                break
        return list(found)

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        # numbers: of the lines of the rows, as empty lines make them differ. The names may have been
        # read in part only, so an unknown one shows here.
        numbers: list[int] = []
        rows: list[dict[str, Any]] = []
        size = 0
        for number, line in self._lines():
            row = self._row(number, line)
            if not types.keys() >= row.keys():
                name = next(name for name in row if name not in types)
                raise self._refused(number, f"the column {name!r}", f"one of {', '.join(types)}")
            check(row.keys(), f"{self.path}, line {number}")
            numbers.append(number)
            rows.append(row)
            size += len(line)
            if len(rows) == _LINES_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield self._batch(rows, numbers, types)
                numbers, rows, size = [], [], 0
        if rows:
            yield self._batch(rows, numbers, types)

    def _batch(
        self, rows: list[dict[str, Any]], numbers: list[int], types: Types
    ) -> pa.RecordBatch:
        def place(at: int) -> str:
            return f"{self.path}, line {numbers[at]}"

        columns = [
            _column([row.get(name) for row in rows], parsed, name, kind, place)
            for name, kind in types.items()
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(types))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """With their numbers, from 1 on."""
        check_encoding(self.file, self.path)
        for number, line in enumerate(self.file, 1):
            text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
            if text.strip():
                yield number, text

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        """RecursionError: arrays too deep for the decoder. An empty object has no key and would be a row of nothing."""
        try:
            row = _DECODER.decode(decoded(line, f"{self.path}, line {number}"))
        except (ValueError, RecursionError) as cause:
            raise self._refused(number, f"text that is none: {cause}", "an object") from cause
        if not isinstance(row, dict) or not row:
            raise self._refused(number, shown(row), "an object of column names and values")
        return row

    def _refused(self, number: int, found: str, expected: str) -> InvalidError:
        return InvalidError(
            f"{self.path}, line {number}",
            found=found,
            expected=f"{expected}, as JSON, in every line",
            action="Correct the file, or name its --format.",
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name twice is refused, where `json` takes the last one. Also of objects within."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} twice in an object")
    return found


# Numbers stay texts until the type of the column is known: a DECIMAL or a BIGINT loses no digit.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=JsonNumber,
)


@dataclass(frozen=True)
class CsvInput:
    """One block, as large as the largest row needs, at a time.

        id,city     1,      null: nothing between the commas
                    1,""    the empty text

    Values are texts for Arrow, so that one parser (`parsed_texts`) says what a value is.
    """

    file: BinaryIO
    path: str

    def names(self, enough: Collection[str]) -> Sequence[str]:
        check_encoding(self.file, self.path)
        # The line of names alone, which may have line breaks in quotes. An odd number of quotes opens
        # or closes one; doubled quotes are two, and change nothing. Empty lines before it are skipped.
        parts: list[bytes] = []
        in_quotes, length = False, 0
        while part := self.file.readline(_MOST_BYTES):
            parts.append(part)
            in_quotes ^= part.count(b'"') % 2 == 1
            length += len(part)
            if length > _MOST_BYTES:
                raise self._refused("a quote that is not closed, or a line of names without end")
            if not in_quotes and part.strip():
                break
        if in_quotes:
            raise self._refused("a quote that is not closed")
        line = b"".join(parts)
        decoded(line, f"{self.path}, the line of names")
        with pyarrow.csv.open_csv(io.BytesIO(line), _reading(len(line), 0)) as reader:
            return list(reader.schema.names)

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        # row: how many came before, for messages; Arrow says of a batch only what is in it.
        names = self.names(())
        check(names, self.path)
        self._check_flat(names, types)
        row = 0
        for batch in self._texts(names):
            yield self._batch(batch, row, types)
            row += batch.num_rows

    # Before the first row is read, as no field of CSV can be such a value.
    def _check_flat(self, names: Sequence[str], types: Types) -> None:
        nested = [name for name in names if types[name].is_nested]
        if nested:
            raise InvalidError(
                self.path,
                found=f"the nested columns {', '.join(nested)}",
                expected="plain columns, as CSV has no others",
                action="Leave these columns out, or use json or parquet.",
            )

    def _texts(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows as texts. Behind the file a row is read that a quote which is left open would take in.

            1,"a      the file ends here; Arrow would take what follows for a part of the field
            \\0end,\\0end    so this row comes out in one piece only if the quote was closed

        It is the last row of the last batch, so one batch is held back, and comes without it.
        """
        tail = f"\n{','.join([_ENDED] * len(names))}\n".encode()
        held: pa.RecordBatch | None = None
        for batch in self._blocks(names, tail):
            if held is not None:
                yield held
            held = batch
        if held is None or any(column[-1].as_py() != _ENDED for column in held.columns):
            raise self._refused("a quote that is not closed")
        yield held[:-1]

    def _blocks(self, names: Sequence[str], tail: bytes) -> Iterator[pa.RecordBatch]:
        """Read in blocks; should one not hold a row, from that row on in larger ones, up to `_MOST_BYTES`.

        Arrow cannot enlarge a block on the way: the file is opened again, and the rows that were given
        already (`done`) are passed over. 4, 32, 256 MB: three times at most.
        """
        block, done = _BYTES_AT_ONCE, 0
        texts = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        how = pyarrow.csv.ParseOptions(newlines_in_values=True)
        while True:
            try:
                with pyarrow.csv.open_csv(
                    _Followed(self.file, tail), _reading(block, done), how, texts
                ) as reader:
                    for batch in reader:
                        done += batch.num_rows
                        if batch.num_rows:
                            yield batch
                return
            except pa.ArrowInvalid as cause:
                if _IS_NO_TEXT in str(cause):
                    raise self._refused("text of another encoding than UTF-8") from cause
                if not str(cause).startswith(_BLOCK_IS_SMALL):
                    raise self._refused(str(cause).splitlines()[0]) from cause
                if block == _MOST_BYTES:
                    raise self._refused(f"a row of more than {_MOST_BYTES >> 20} MB") from cause
                block = min(8 * block, _MOST_BYTES)

    def _batch(self, batch: pa.RecordBatch, first: int, types: Types) -> pa.RecordBatch:
        def place(at: int) -> str:
            return f"{self.path}, row {first + at + 1}"

        columns = [
            _column(texts, parsed_texts, name, types[name], place)
            for name, texts in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _refused(self, found: str) -> InvalidError:
        return InvalidError(
            self.path,
            found=found,
            expected="CSV with a line of names",
            action="Correct the file, or name its --format.",
        )


# Of no bytes (an empty file) Arrow takes no block of 0.
def _reading(block: int, done: int) -> pyarrow.csv.ReadOptions:
    return pyarrow.csv.ReadOptions(block_size=max(block, 1), skip_rows_after_names=done)


class _Followed(io.RawIOBase):
    """A file from its begin, and bytes behind it. Closing it leaves the file open, for the next pass."""

    def __init__(self, file: BinaryIO, tail: bytes) -> None:
        self._parts = [file, io.BytesIO(tail)]
        file.seek(0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """As of a pipe: less than was asked for is not the end, 0 is. Never a mix of file and tail."""
        while self._parts:
            found = self._parts[0].read(len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)
            del self._parts[0]
        return 0


def _column(
    values: Any,
    convert: Callable[[Any, DataType], pa.Array],
    name: str,
    kind: DataType,
    place: Callable[[int], str],
) -> pa.Array:
    """values: a list or an Arrow column. place: the line or row of a value, in words.

    `first_refused` halves the values until one is left, so a wrong one costs a few more conversions,
    and the right ones nothing.
    """
    try:
        return convert(values, kind)
    except InvalidError:
        at = first_refused(values, lambda part: convert(part, kind))
    try:
        return convert(values[at : at + 1], kind)
    except InvalidError as wrong:
        raise InvalidError(
            f"{place(at)}, column {name!r}",
            found=wrong.found,
            expected=wrong.expected,
            action=wrong.action,
        ) from wrong


INPUTS: Final[dict[str, type[RowInput]]] = {
    "parquet": ParquetInput,
    "csv": CsvInput,
    "json": JsonInput,
}
