"""Parts of a log that are built from values: what a server sends seldom, and bytes that no server sends. In both tiers
of kernels.
"""

from __future__ import annotations

import random
import re

import pytest

from tests.cdc.log import built_log as built
from tests.cdc.log.slow_decoder import SlowDecoder, changes_of, transactions_of
from widetable import DamagedError
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.source.spilled_bytes import SpilledColumns

pytestmark = pytest.mark.usefixtures("tier")


def test_random_parts_decode_as_a_slow_decoder_decodes_them(rng: random.Random) -> None:
    for _ in range(30):
        slow, decoder = SlowDecoder(), LogDecoder()
        for _ in range(3):
            data = built.random_part(rng, rng.randint(0, 4))
            log = decoder.decode(data)
            transactions, changes = slow.decode(data)
            assert transactions_of(log) == transactions
            assert changes_of(log) == changes
            assert log.end_lsn == (transactions[-1].end_lsn if transactions else None)


def test_slices_of_a_part_decode_as_the_whole(rng: random.Random) -> None:
    """In files: what is beyond memory has the values and the order that it has in one piece."""
    for _ in range(20):
        slow, decoder = SlowDecoder(), LogDecoder()
        data = built.random_part(rng, 4)
        log = decoder.decode(data, SpilledColumns(0).keep, rng.choice([1, 60, 400]))
        assert changes_of(log) == slow.decode(data)[1]


def test_a_part_without_rows_holds_nothing() -> None:
    log = LogDecoder().decode(built.part(extension=b"abc"))
    assert (log.end_lsn, log.batches, log.relations) == (None, (), ())


def test_a_decoder_remembers_relations_and_says_which_a_part_names() -> None:
    decoder = LogDecoder()
    first = built.part(
        built.begin(1), built.relation(5, "a"), built.relation(6, "b"), built.commit(9)
    )
    assert [relation.oid for relation in decoder.decode(first).relations] == [5, 6]
    second = decoder.decode(built.part(built.begin(2), built.insert(6, "x"), built.commit(10)))
    assert [relation.oid for relation in second.relations] == [6]
    assert second.batches[0].new.to_pydict() == {"b": ["x"]}


def test_a_repeated_relation_begins_no_batch_and_a_form_that_comes_back_does() -> None:
    same, other = built.relation(5, "a"), built.relation(5, "b")
    inserts = [built.insert(5, str(number)) for number in range(4)]
    messages = [same, inserts[0], same, inserts[1], other, inserts[2], same, inserts[3]]
    log = LogDecoder().decode(built.part(built.begin(1), *messages, built.commit(9)))
    rows = [batch.new.to_pydict() for batch in log.batches]
    assert rows == [{"a": ["0", "1"]}, {"b": ["2"]}, {"a": ["3"]}]
    assert [relation.columns[0].name for relation in log.relations] == ["a"]


def test_a_truncate_is_a_row_for_each_of_its_tables() -> None:
    head = [built.begin(1), built.relation(5, "a"), built.relation(6, "b", name="z")]
    messages = [built.truncate(6, 5), built.insert(5, "x"), built.commit(9)]
    log = LogDecoder().decode(built.part(*head, *messages))
    changes = [(change.relation[2], change.kind) for change in changes_of(log)]
    assert changes == [("z", "T"), ("t", "T"), ("t", "I")]


WHOLE = [built.begin(1), built.relation(5, "a", "b"), built.insert(5, "x", "y"), built.commit(9)]
WRONG = {
    "the head of COPY": b"",
    "no flags": built.part().replace(b"\r\n\0\0", b"\r\n\0\1"),
    "the count 3 of the fields": built.part()[:-2] + b"\0\2" + built.row(b"M")[2:] + b"\xff\xff",
    "the size 8 of an LSN": built.part(b"M").replace(b"\0\0\0\x08", b"\0\0\0\x07"),
    "the size 4 of a transaction's number": built.part(b"M").replace(b"\0\0\0\x04", b"\0\0\0\x05"),
    "the size of a message, 1 or more": built.part(b""),
    "the letter of a message": built.part(b"S"),
    "the end of the part": built.part() + b"\0",
    "a Begin message of 21 bytes": built.part(b"B123"),
    "a Commit message of 26 bytes": built.part(built.begin(1), b"C12"),
    "as its count of tables says": built.part(built.begin(1), built.truncate(1) + b"\0\0\0\0"),
    "a change of 8 bytes or more": built.part(built.begin(1), b"I12"),
    "a Begin message before": built.part(*WHOLE[1:]),
    "the Commit message of the transaction before": built.part(built.begin(1), built.begin(2)),
    "the Commit message of the last transaction": built.part(*WHOLE[:3]),
    "the commit LSN that its Begin": built.part(built.begin(1), built.commit(9, lsn=101)),
    "a Relation message of the table before": built.part(WHOLE[0], *WHOLE[2:]),
    "the replica identity d, n, f or i": built.part(built.relation(5, identity="x")),
    "8 more bytes": built.part(built.relation(5, "a")[:-1]),
    "a text that ends with a zero byte": built.part(b"R1234abc"),
    "a text in UTF-8": built.part(built.relation(5, "a").replace(b"public", b"publi\xff")),
    "the end of the message": built.part(built.relation(5, "a") + b"\0"),
}


@pytest.mark.parametrize("expected", WRONG)
def test_wrong_bytes_are_named(expected: str) -> None:
    with pytest.raises(DamagedError, match=re.escape(expected)) as raised:
        LogDecoder().decode(WRONG[expected])
    assert re.search(r" at byte [\d,]+$", raised.value.found)


_KEY = b"\0\2t\0\0\0\1xn"
WRONG_ROWS = {
    "as many values as the relation has columns": built.insert(5, "x"),
    "the letter N of a new row": b"I\0\0\0\5K" + _KEY,
    "the letter K or O of an old row": b"D\0\0\0\5N" + _KEY,
    "the letter n, u or t of a value": built.insert(5, None, None)[:-1] + b"b",
    "the size of a text within the message": built.insert(5, None, "xyz")[:-1],
    "more bytes of the message": b"U\0\0\0\5K" + _KEY,
    "the end of the message": built.insert(5, None, "x") + b"\0",
    "a text in UTF-8": built.insert(5, None, "é").replace(b"\xa9", b"x"),
}


@pytest.mark.parametrize("expected", WRONG_ROWS)
def test_wrong_rows_are_named_and_leave_the_decoder_as_it_was(expected: str) -> None:
    decoder = LogDecoder()
    decoder.decode(built.part(built.begin(1), built.relation(5, "a"), built.commit(9)))
    messages = [built.begin(1), built.relation(5, "a", "b"), WRONG_ROWS[expected], built.commit(9)]
    with pytest.raises(DamagedError, match=expected):
        decoder.decode(built.part(*messages))
    after = decoder.decode(built.part(built.begin(1), built.insert(5, "x"), built.commit(9)))
    assert after.batches[0].new.to_pydict() == {"a": ["x"]}


def test_an_offset_is_that_of_the_wrong_byte() -> None:
    data = built.part(*WHOLE)
    at = data.index(b"t\0\0\0\1y")
    with pytest.raises(DamagedError, match=f"the number 98 at byte {at}; expected the letter n, u"):
        LogDecoder().decode(data[:at] + b"b" + data[at + 1 :])


def test_a_part_that_is_cut_is_damaged(rng: random.Random) -> None:
    data = built.random_part(rng, 3)
    for end in range(len(data)):
        with pytest.raises(DamagedError):
            LogDecoder().decode(data[:end])


def test_flipped_bytes_are_damaged_or_other_values(rng: random.Random, tier: str) -> None:
    """Never an error of another kind, never an endless loop."""
    refused = 0
    for _ in range(2000 if tier == "compiled" else 200):
        data = bytearray(built.random_part(rng, 2))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice(
                (0, 1, 0xFF, 0x7F, 0x80, rng.randrange(256))
            )
        try:
            changes_of(LogDecoder().decode(bytes(data)))
        except DamagedError:
            refused += 1
    assert refused > 50
