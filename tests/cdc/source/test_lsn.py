"""Positions in the log as PostgreSQL's own type reads and prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.databases.postgres_server import PostgresServer
from widetable import InvalidError
from widetable_cdc.source.lsn import lsn_of, lsn_text


def test_the_server_reads_and_prints_the_same(server: PostgresServer) -> None:
    for lsn in (1, 0xFFFFFFFF, 0x100000000, 0x16B374D848, 2**63 - 1):
        text = lsn_text(lsn)
        ((printed, number),) = server.execute(
            f"SELECT '{text}'::pg_lsn::text, '{text}'::pg_lsn - '0/0'::pg_lsn"
        )
        assert printed == text
        assert number == lsn


@given(st.integers(0, 2**63 - 1))
def test_a_position_comes_back_from_its_text(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "16", "16/", "16/B374D8480", "x/1", "1/2/3", "1/2 "])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="hexadecimal"):
        lsn_of(text)
