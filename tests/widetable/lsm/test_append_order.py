"""A compaction of a bucket keeps the order of its files, also where other clients gave several the same numbers."""

from __future__ import annotations

from pathlib import Path

import widetable as wt
from tests.support.models.random_table import live_files
from widetable.lsm.append_plan import plan_appended
from widetable.lsm.bucket_plan import Scope


def test_files_of_equal_numbers_keep_their_order(tmp_path: Path) -> None:
    options = {"bucket": "1", "bucket-key": "a", "write-only": "true", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table("db.t", {"a": "INT"}, options=options)
    for number in range(3):
        table.write([{"a": number}])
    (files,) = live_files(table.path).values()
    equal = [file._replace(min_sequence_number=7, max_sequence_number=7) for file in files]
    (step,) = plan_appended(table.schema, equal, Scope.FULL)
    assert [file.file_name for file in step.files] == [file.file_name for file in files]
