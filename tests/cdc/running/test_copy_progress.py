"""How far a copy is, in words."""

from __future__ import annotations

from widetable_cdc.running.copy_progress import CopyProgress


def test_the_time_that_is_left_follows_from_the_chunks() -> None:
    progress = CopyProgress(began_seconds=100.0)
    progress.add(500_000, 70 << 20)
    progress.add(500_000, 70 << 20)
    text = progress.text(done=2, chunks=12, now_seconds=110.0)
    assert text == "2 of 12 chunks, 1000000 rows, 140.0 MiB, 100000 rows/s, 50 s left"


def test_chunks_of_an_earlier_process_are_no_rows_of_this_one() -> None:
    progress = CopyProgress(began_seconds=0.0)
    progress.add(10, 1_024)
    assert progress.text(done=9, chunks=10, now_seconds=2.0) == (
        "9 of 10 chunks, 10 rows, 1.0 KiB, 5 rows/s, 2 s left"
    )


def test_a_copy_that_is_over_has_no_time_left() -> None:
    progress = CopyProgress(began_seconds=0.0)
    progress.add(1, 100)
    assert (
        progress.text(done=1, chunks=1, now_seconds=0.0)
        == "1 of 1 chunk, 1 row, 100 B, 1000 rows/s"
    )
