"""Reads the rows of one file batch by batch, in three formats: Parquet, CSV with a line of names, JSON lines.

    file := lines                                     JSON: one object per line; empty lines do not count
          | names row*                                CSV: commas; quotes doubled, and line breaks, in quotes
          | Parquet

Values are texts of `format.parsed_value`; null is JSON's null, in CSV an empty field without quotes. Each call
reads the file again, so files are seekable.

In: files, types of columns. Out: names of columns, record batches. Raises InvalidError with the file and the line or
row of a value of another form, OSError and pyarrow's errors of files that cannot be read.

                memory                                an error names
    Parquet     a batch of Arrow's reader             the column
    JSON        4 MB of lines, at least one line      the line
    CSV         4 MB, up to 256 MB for a long row     the row after the line of names: a row may have several lines

All values of a column are converted at once; only if that fails, the wrong value is searched for (`typed_column`).
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
# The largest block: it limits the memory for a file in which a quote is not closed.
_MAX_BYTES: Final = 1 << 28
# The beginning of Arrow's error for a row that is longer than a block; its other errors may contain texts of rows.
_BLOCK_IS_SMALL: Final = "straddling object straddles two block boundaries"
_IS_NO_TEXT: Final = "invalid UTF8"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# The text in each field of the row that is appended to a CSV file.
_ENDED: Final = "\0end"
# The column with the names that each row has: no object and no file has a column without a name.
LISTED: Final = ""
NAMES: Final = pa.list_(pa.string())
Types = Mapping[str, DataType]
Check = Callable[[Collection[str], str], None]


class RowInput(Protocol):
    """The rows of one file. path: for messages. The file is seekable, and open while the object is used."""

    def __init__(self, file: BinaryIO, path: str) -> None: ...

    def names(self, enough: Collection[str]) -> Sequence[str]:
        """Return the names of the columns; the function may stop reading when it has all of `enough`."""

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        """Yield all rows, with all or some of the columns `types`, in the file's own order.

        check: called with each set of columns that rows have, and their place, before these rows are yielded. A batch
        whose rows have different columns has a column `LISTED` with the names that each row has, null for all of them.
        """


@dataclass(frozen=True)
class ParquetInput:
    """A Parquet file. Its batches keep the file's types, not `types`.

    The writer casts them without loss, or refuses them (`write.safe_cast`).
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
    """A file of JSON lines, read a few MB of lines at a time.

        {"id": 1, "tags": ["a"]}        a row; a column that the object lacks is not written
                                        empty lines count in line numbers, but are no rows

    A whole line is in memory, however long it is.
    """

    file: BinaryIO
    path: str

    def names(self, enough: Collection[str]) -> Sequence[str]:
        """Return the names of all objects, in the order of their first line; stop after all of `enough`."""
        names: dict[str, None] = {}
        for number, line in self._lines():
            names |= dict.fromkeys(self._row(number, line))
            if names.keys() >= set(enough):
                break
        return list(names)

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        # numbers: the line numbers of the rows; empty lines make them differ from row numbers. `names` may have
        # stopped early, so an unknown name is found here.
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
            typed_column([row.get(name) for row in rows], parsed, name, kind, place)
            for name, kind in types.items()
        ]
        names = [list(row) if len(row) < len(types) else None for row in rows]
        if any(names):
            columns.append(pa.array(names, NAMES))
            return pa.RecordBatch.from_arrays(columns, names=[*types, LISTED])
        return pa.RecordBatch.from_arrays(columns, names=list(types))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the non-empty lines with their numbers, from 1 on."""
        check_encoding(self.file, self.path)
        for number, line in enumerate(self.file, 1):
            text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
            if text.strip():
                yield number, text

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        """Parse a line. Arrays may be too deep for the decoder (RecursionError). An empty object is refused."""
        try:
            row = _DECODER.decode(decoded(line, f"{self.path}, line {number}"))
        except (ValueError, RecursionError) as cause:
            raise self._refused(number, f"text that is not JSON: {cause}", "an object") from cause
        if not isinstance(row, dict) or not row:
            raise self._refused(number, shown(row), "an object of column names and values")
        return row

    def _refused(self, number: int, actual: str, expected: str) -> InvalidError:
        return InvalidError(
            f"{self.path}, line {number}",
            found=actual,
            expected=f"{expected}, as JSON, in every line",
            action="Correct the file, or pass its --format.",
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, also a nested one, as a dict. A repeated name is refused; `json` would take the last value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} twice in an object")
    return values


# Numbers stay texts until the type of the column is known, so a DECIMAL or a BIGINT loses no digit.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=JsonNumber,
)


@dataclass(frozen=True)
class CsvInput:
    """A CSV file, read in blocks that grow to the size of the largest row.

        id,city     1,      null: nothing between the commas
                    1,""    the empty text

    Arrow reads all values as texts, so that one parser (`parsed_texts`) decides about values.
    """

    file: BinaryIO
    path: str

    def names(self, enough: Collection[str]) -> Sequence[str]:
        check_encoding(self.file, self.path)
        # Read only the line of names, which may have line breaks in quotes. An odd number of quotes opens or closes
        # a quote; doubled quotes change nothing. Empty lines before it are skipped.
        parts: list[bytes] = []
        in_quotes, length = False, 0
        while part := self.file.readline(_MAX_BYTES):
            parts.append(part)
            in_quotes ^= part.count(b'"') % 2 == 1
            length += len(part)
            if length > _MAX_BYTES:
                raise self._refused(
                    "a quote that is not closed, or a line of names that does not end"
                )
            if not in_quotes and part.strip():
                break
        if in_quotes:
            raise self._refused("a quote that is not closed")
        line = b"".join(parts)
        decoded(line, f"{self.path}, the line of names")
        with pyarrow.csv.open_csv(io.BytesIO(line), _reading(len(line), 0)) as reader:
            return list(reader.schema.names)

    def batches(self, types: Types, check: Check) -> Iterator[pa.RecordBatch]:
        # row: the number of rows before a batch, for messages.
        names = self.names(())
        check(names, self.path)
        self._check_flat(names, types)
        row = 0
        for batch in self._texts(names):
            yield self._batch(batch, row, types)
            row += batch.num_rows

    # This check comes before the first row, because no CSV field can hold a nested value.
    def _check_flat(self, names: Sequence[str], types: Types) -> None:
        nested = [name for name in names if types[name].is_nested]
        if nested:
            raise InvalidError(
                self.path,
                found=f"the nested columns {', '.join(nested)}",
                expected="plain columns, as CSV has no others",
                action="Omit these columns, or use json or parquet.",
            )

    def _texts(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as texts. A row is appended to the file; an open quote would swallow it.

            1,"a      the file ends here; Arrow would take the next line for a part of the field
            \\0end,\\0end    so this row is read unchanged only if the quote was closed

        It is the last row of the last batch, so one batch is held back, and yielded without it.
        """
        tail = f"\n{','.join([_ENDED] * len(names))}\n".encode()
        last: pa.RecordBatch | None = None
        for batch in self._blocks(names, tail):
            if last is not None:
                yield last
            last = batch
        if last is None or any(column[-1].as_py() != _ENDED for column in last.columns):
            raise self._refused("a quote that is not closed")
        yield last[:-1]

    def _blocks(self, names: Sequence[str], tail: bytes) -> Iterator[pa.RecordBatch]:
        """Yield batches, read in blocks. If a block is too small for a row, larger ones follow, up to `_MAX_BYTES`.

        Arrow cannot enlarge a block during a read. So the file is opened again, and the rows that were yielded already
        (`done`) are skipped. Blocks have 4, 32 and 256 MB, so the file is opened three times at most.
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
                if block == _MAX_BYTES:
                    raise self._refused(f"a row of more than {_MAX_BYTES >> 20} MB") from cause
                block = min(8 * block, _MAX_BYTES)

    def _batch(self, batch: pa.RecordBatch, first: int, types: Types) -> pa.RecordBatch:
        def place(at: int) -> str:
            return f"{self.path}, row {first + at + 1}"

        columns = [
            typed_column(texts, parsed_texts, name, types[name], place)
            for name, texts in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _refused(self, actual: str) -> InvalidError:
        return InvalidError(
            self.path,
            found=actual,
            expected="CSV with a line of names",
            action="Correct the file, or pass its --format.",
        )


# Arrow refuses a block of 0 bytes, even for an empty file.
def _reading(block: int, done: int) -> pyarrow.csv.ReadOptions:
    return pyarrow.csv.ReadOptions(block_size=max(block, 1), skip_rows_after_names=done)


class _Followed(io.RawIOBase):
    """A file from its start, followed by more bytes. Closing it leaves the file open, for the next pass."""

    def __init__(self, file: BinaryIO, tail: bytes) -> None:
        self._parts = [file, io.BytesIO(tail)]
        file.seek(0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read like a pipe: only 0 bytes mean the end. One call never mixes bytes of file and tail."""
        while self._parts:
            data = self._parts[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            del self._parts[0]
        return 0


def typed_column(
    values: Any,
    convert: Callable[[Any, DataType], pa.Array],
    name: str,
    kind: DataType,
    place: Callable[[int], str],
) -> pa.Array:
    """Convert the values of a column. values: a list or an Arrow column. place: the line or row of a value, in words.

    `first_refused` halves the values until one is left. So a wrong value costs a few more conversions, and valid values
    cost nothing.
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
