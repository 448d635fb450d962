"""Which tests show what docs/differences-from-paimon.md says of us: for each row and each line of "Not done" what tells
its first cell from all others, and ids of tests that assert it. test_differences.py holds this against page and tests.
"""

from __future__ import annotations

from typing import Final

_ANSWERS = "tests/widetable/test_differences_answers.py::test_"
_FAULTS = "tests/widetable/test_differences_faults.py::test_"
_WRITING = "tests/widetable/test_differences_writing.py::test_"
_NOT_DONE = "tests/widetable/test_not_done.py::test_"
_JAVA = "tests/interop/test_java_faults.py::test_"
_JAVA_TABLES = "tests/widetable/test_java_tables.py::test_"
_BESIDE = "tests/interop/test_java_beside.py::test_"
_COMMIT = "tests/widetable/commit/"
_FORMAT = "tests/widetable/format/"
_LSM = "tests/widetable/lsm/"
_MERGE = "tests/widetable/merge/"
_OPERATIONS = "tests/widetable/operations/"
_READ = "tests/widetable/read/"
_STORAGE = "tests/widetable/storage/"
_WRITE = "tests/widetable/write/"
_NESTED = "tests/interop/test_java_nested.py::test_"
_COLUMNS = _OPERATIONS + "ddl/test_column_change.py::test_"
_NORMAL_FORM = _MERGE + "test_normal_form.py::test_"
_COMPACTION = _LSM + "test_compaction.py::test_"
_RULES = _MERGE + "test_rules.py::test_"
_PLANS = _LSM + "test_bucket_plan.py::test_"
_LOOKED_UP = _OPERATIONS + "compaction/test_changelog_after_append.py::test_"
_OLD_LEVELS = _OPERATIONS + "compaction/test_old_levels.py::test_"
_RACES = _COMMIT + "transaction/test_commit_races.py::test_"
_DYNAMIC = _OPERATIONS + "writes/test_dynamic_tables.py::test_"
_LOST = _OPERATIONS + "history/test_lost_snapshots.py::test_"
_FORWARD = _OPERATIONS + "history/test_fast_forward.py::test_"
_BRANCHES = _OPERATIONS + "history/test_branches.py::test_"
_EXPIRY = _OPERATIONS + "history/test_expiry"
_NOTES = _OPERATIONS + "health/test_damaged_metadata.py::test_"
_FOLLOW = _OPERATIONS + "queries/test_follow.py::test_"
_ANOTHER = _OPERATIONS + "queries/test_follow_of_lost_tables.py::test_"
_CHANGES = _READ + "test_changes.py::test_"
_STREAM = "tests/widetable/connector/test_change_streams.py::test_"
_ORC = _FORMAT + "test_orc_zones.py::test_"

ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "an option of a column that says nothing Paimon knows": (
        "tests/widetable/test_rejections.py::test_options_of_columns_that_would_have_no_effect_are_refused",
        "tests/widetable/test_rejections.py::test_in_a_table_of_another_client_they_stay_without_effect",
    ),
    "whose group sequence is null, alone": (
        _NORMAL_FORM + "add_without_sequence_loses_what_the_group_protects",
    ),
    "values that a retraction carries": (
        _NORMAL_FORM + "retractions_keep_key_and_sequences",
        _NORMAL_FORM + "not_null_columns_stay",
        _NORMAL_FORM + "removing_delete_keeps_the_key_only",
        _JAVA + "a_removed_row_comes_back_with_the_value_of_its_removal",
        _JAVA + "a_row_that_java_removed_comes_back_with_the_values_of_its_removal",
    ),
    "-D then add of a key in one commit": (
        _WRITE + "test_table_writer.py::test_a_removal_in_another_spill_is_not_forgotten",
        _WRITE + "test_table_writer.py::test_layers_of_one_batch_are_files_of_their_own",
    ),
    "newer runs merged without the base": (
        _COMPACTION + "a_removal_is_not_merged_without_its_base",
    ),
    "deletes at the bottom level (MergeTree": (
        _COMPACTION + "deletes_with_a_sequence_field_stay_and_block_what_comes_late",
        _RULES + "what_compaction_may_do",
    ),
    "such deletes at the bottom level": (
        _ANSWERS + "a_delete_that_stays_at_the_bottom_is_no_row_before",
    ),
    "retraction after a removal": (_ANSWERS + "a_retraction_after_a_removal_shows_nothing",),
    "a removed row that comes back, lookup changelog": (
        _MERGE + "test_changelog.py::test_a_removed_row_comes_back_without_its_past",
        _PLANS + "script",
    ),
    "sequence.field and producer lookup or": (
        _ANSWERS + "sequence_field_and_a_producer_that_needs_merged_rows_are_refused",
    ),
    "sequence.field, late record after a compaction": (
        _COMPACTION + "partial_update_with_a_sequence_field_is_only_moved",
    ),
    "depends on the order of merges": (
        _ANSWERS + "a_sum_goes_from_the_oldest_commit_on_whatever_was_compacted",
        _MERGE + "test_against_model.py::test_any_history",
    ),
    "retractions next to adds": (
        _ANSWERS + "a_retraction_beside_an_add_takes_back_what_is_older",
        _ANSWERS + "collect_takes_an_update_of_one_commit_as_its_new_value",
    ),
    "functions that go by order with sequence.field": (
        _ANSWERS + "sequence_field_and_a_producer_that_needs_merged_rows_are_refused",
    ),
    "a column of sequence.field after a retraction": (
        _ANSWERS + "a_column_that_orders_has_the_value_of_a_retraction",
        _JAVA + "both_answers",
    ),
    "a retraction alone for its key": (
        _ANSWERS + "a_retraction_alone_is_taken_back_from_nothing",
        _JAVA + "both_answers",
    ),
    "a retraction that a function cannot take back": (
        _ANSWERS + "a_retraction_that_cannot_be_taken_back_is_not_written",
        _ANSWERS + "a_retraction_without_a_meaning_is_not_written",
    ),
    "a -D that can change nothing": (
        "tests/widetable/merge/test_normal_form.py::test_a_delete_without_a_sequence_is_refused",
        "tests/widetable/merge/test_normal_form.py::test_a_delete_that_takes_nothing_back_is_refused",
    ),
    "a NOT NULL column": (
        _ANSWERS + "a_not_null_column_without_a_value_has_that_of_the_last_record",
        _JAVA + "a_not_null_column_that_a_retraction_clears",
    ),
    "level 0 of first-row tables": (
        _ANSWERS + "level_0_is_read_and_merged",
        _JAVA + "level_0_of_first_row_is_not_read",
    ),
    "the first record of a key of first-row": (
        _ANSWERS + "the_first_record_of_a_key_is_published_as_an_insert",
    ),
    "altering a function or its options": (
        _OPERATIONS + "ddl/test_functions_of_tables.py::test_a_function_stays_with_its_column",
    ),
    "in ORC files of Java": (
        _ORC + "what_java_stored_is_the_clock_of_the_writers_zone",
        _ORC + "where_no_zone_is_said_it_is_that_of_the_process",
    ),
    "ORC files of ORC's C++": (_ORC + "other_files_hold_the_instant_itself",),
    "times outside of the years": (
        _FORMAT
        + "test_other_formats.py::test_times_far_away_within_a_nested_column_of_orc_are_refused_by_name",
        _FORMAT + "test_other_formats.py::test_times_far_away_are_exact_in_orc",
    ),
    "a ROW of whose fields a file has none": (
        _ANSWERS + "a_row_whose_fields_are_all_newer_is_a_row",
        _NESTED + "java_has_no_row_where_all_fields_are_newer",
    ),
}

FAULTS_OF_JAVA: Final[dict[str, tuple[str, ...]]] = {
    "NaN in a key": (
        _FAULTS + "nan_and_both_zeros_are_keys_of_their_own",
        "tests/metamorphic/test_any_bit_pattern.py::test_all_nans_are_one_key",
        _JAVA + "a_nan_in_a_key_swallows_rows_of_other_keys",
    ),
    "-0.0 and 0.0": (
        _FAULTS + "nan_and_both_zeros_are_keys_of_their_own",
        _FAULTS + "minus_zero_is_the_lesser_value",
        _JAVA + "zero_and_minus_zero_are_one_key_in_reads_and_two_in_lookups",
    ),
    "the first 808 microseconds": (
        _FAULTS + "the_first_and_the_last_time_of_a_timestamp",
        _JAVA + "the_first_times_of_a_timestamp_are_not_written",
    ),
    "min, max of BOOLEAN": (
        _FAULTS + "false_is_the_lesser_boolean",
        _JAVA + "no_min_of_booleans",
    ),
    "first_non_null_value in a sequence group": (
        _FAULTS + "a_late_null_is_the_first_value",
        _JAVA + "the_first_value_of_a_group_depends_on_when_java_compacts",
    ),
    "a snapshot from before a column was renamed": (
        _FAULTS + "a_snapshot_from_before_its_ordering_column_was_renamed",
        _JAVA + "a_snapshot_from_before_the_sequence_field_was_renamed",
    ),
    "keys of BINARY": (
        _FAULTS + "keys_of_bytes_are_looked_up_by_compactions",
        _JAVA + "keys_of_bytes_cannot_be_looked_up",
    ),
    "NUL in the text of a partition": (
        _FAULTS + "partitions_with_nul_in_their_text_are_looked_up_by_compactions",
        _JAVA + "a_partition_with_nul_in_its_text_cannot_be_looked_up",
    ),
    "collect with distinct": (
        _FAULTS + "null_is_one_of_the_distinct_rows",
        _JAVA + "distinct_rows_with_a_null_cannot_be_collected",
    ),
    "renaming a column of sequence.field": (
        _FAULTS + "one_of_several_ordering_columns_is_renamed",
        _JAVA + "one_of_several_sequence_fields_cannot_be_renamed",
    ),
    "order of elements": (_FAULTS + "elements_stay_in_the_order_in_which_they_came",),
    "an entry without a time": (
        _FAULTS + "what_is_no_element_is_passed_over_wherever_it_stands",
        _JAVA + "the_first_value_is_taken_as_it_is",
    ),
    "two jobs that compact one table": (
        _RACES + "a_compaction_of_level_0_loses_to_one_that_brought_up_other_rows",
        "tests/widetable/operations/compaction/test_compaction_job.py::test_who_lost_against_another_compactor_drops_its_files_and_plans_again",
        _BESIDE + "streams_beside_each_other",
    ),
    "renaming a field within a column": (
        "tests/widetable/acceptance/test_function_change.py::test_nested_update_goes_on_by_the_renamed_key",
        _NESTED + "java_gives_options_of_a_column_to_another_one",
    ),
}

WRITING: Final[dict[str, tuple[str, ...]]] = {
    "level-0 files": (
        _WRITE + "test_table_writer.py::test_files_are_narrow_or_hold_all_columns",
        _FORMAT
        + "test_data_file_writer.py::test_narrow_file_holds_key_not_null_and_chosen_columns",
    ),
    "compacted and changelog files": (
        "tests/widetable/test_absent_columns.py::test_files_have_no_column_that_nobody_wrote",
        "tests/widetable/test_absent_columns.py::test_old_readers_get_every_column_in_every_file",
    ),
    "files of level 0 that one compaction takes": (
        "tests/widetable/lsm/test_fan_in.py::test_the_oldest_are_taken_as_many_as_fit",
        "tests/widetable/lsm/test_fan_in.py::test_many_files_are_compacted_step_by_step",
    ),
    "sequence numbers (MergeTreeWriter)": (
        _COMMIT
        + "transaction/test_committer.py::test_sequence_base_is_above_the_clock_and_all_that_was_written",
        _WRITE + "test_sequence.py::test_numbers_follow_the_formula",
    ),
    "sequence number of a merged row": (
        _WRITE
        + "test_table_writer.py::test_rows_of_a_commit_are_collapsed_and_numbers_show_the_first",
        _COMPACTION + "the_base_of_mixed_rows_is_older_than_everything",
    ),
    "sequence number of rows written by a lookup": (
        _WRITING + "rows_of_a_lookup_compaction_have_the_number_of_their_level",
    ),
    "a lookup table that was compacted without": (
        _LOOKED_UP + "a_table_that_gains_lookup_is_repaired_once_and_says_so",
    ),
    "first commit of a bucket": (
        _WRITING + "the_first_commit_of_a_lookup_table_is_merged_to_whole_rows",
    ),
    "default of num-levels": (_WRITING + "the_default_of_num_levels_follows_trigger_and_producer",),
    "compaction of older levels": (
        _OLD_LEVELS + "old_levels_are_compacted_behind_a_commit",
        _OLD_LEVELS + "commits_go_on_while_old_levels_are_compacted",
    ),
    "changelog of a writer that did not get": (
        _LOOKED_UP + "who_does_not_get_the_lease_is_served_by_its_holder",
    ),
    "a repeated commit": (
        _COMMIT
        + "transaction/test_committer.py::test_a_repeated_commit_is_found_behind_other_clients_and_after_expiry",
        _COMMIT + "transaction/test_replay.py::test_a_repeated_commit_is_in_once",
    ),
    "lost race for a snapshot id": (
        _RACES + "an_append_has_no_limit_of_tries",
        _RACES + "an_append_that_loses_goes_again_on_the_winner",
    ),
    "manifests merged at commit": (
        _COMMIT
        + "snapshots/test_manifest_merge.py::test_the_list_stays_short_and_entries_are_rewritten_log_times",
    ),
    "commits of one machine": (
        _WRITING + "a_commit_is_published_in_its_turn",
        _STORAGE + "test_lock_queue.py::test_one_at_a_time_in_the_order_of_asking",
    ),
    "texts that are not UTF-8": (
        _WRITING + "values_that_readers_understand_differently_are_refused",
    ),
    "column statistics of values": (
        _FORMAT + "test_data_file_writer.py::test_meta_counts_what_was_written",
        _FORMAT + "test_data_file_writer.py::test_wide_table_says_nothing_in_no_space",
    ),
    "time of a snapshot": (
        _COMMIT
        + "snapshots/test_snapshot_times.py::test_a_commit_takes_over_the_time_before_it_up_to_a_minute",
    ),
    "names of manifests and lists": (
        _COMMIT
        + "snapshots/test_file_checks.py::test_our_files_are_named_after_their_bytes_and_each_is_another",
    ),
    "key widetable.uuid": (
        _COMMIT + "snapshots/test_table_identity.py::test_the_uuid_is_in_the_first_schema_only",
        _COMMIT
        + "snapshots/test_table_identity.py::test_a_table_keeps_it_and_its_next_life_has_another",
    ),
    "widetable.footer-crc32": (
        _FORMAT + "test_footer_seal.py::test_each_wrong_bit_of_a_footer_is_refused",
        "tests/widetable/test_row_width.py::test_our_files_note_what_their_row_groups_take",
    ),
    "publishing on a local disk": (
        _STORAGE + "test_local.py::test_what_is_published_is_on_the_disk_first",
    ),
    "two writers of a table with dynamic": (_DYNAMIC + "two_writers_of_one_new_key",),
    "hash indexes in an overwrite": (_DYNAMIC + "overwritten_rows_stay_in_their_buckets",),
    "rescaled partitions": (
        "tests/metamorphic/test_rescaled_tables.py::test_a_late_record_finds_what_it_would_have_found",
    ),
    "paths to fields": (
        _COLUMNS + "a_change_that_cannot_be_is_refused_by_name",
        _NESTED + "java_takes_any_word_for_what_is_in_a_list_or_map",
    ),
    "a whole nested type for a column": (
        _COLUMNS + "a_nested_type_keeps_its_fields_by_name",
        _COLUMNS + "a_field_moves_to_its_place",
        _NESTED + "java_refuses_a_whole_nested_type",
    ),
}

DAMAGE: Final[dict[str, tuple[str, ...]]] = {
    "recorded sizes and counts": (
        _COMMIT
        + "snapshots/test_file_checks.py::test_a_size_of_the_list_that_is_not_the_manifests",
        _COMMIT
        + "snapshots/test_file_checks.py::test_a_number_of_the_snapshot_that_is_not_what_is_there",
    ),
    "LATEST ahead of all snapshots": (_LOST + "a_lost_newest_snapshot_is_reported_by_every_use",),
    "no snapshot, but hints": (
        _LOST + "any_trace_of_snapshots_stops_every_use",
        _LOST + "cleaning_deletes_nothing_without_a_snapshot",
    ),
    "rollback_to": (
        _OPERATIONS + "health/test_rollback.py::test_the_rows_of_an_older_snapshot_are_back",
        _WRITING + "what_came_back_by_a_rollback_has_another_name",
    ),
    "a compaction that meets a damaged file": (
        _OPERATIONS
        + "compaction/test_quarantined_buckets.py::test_a_compaction_does_all_other_buckets_then_names_the_file",
    ),
}

BRANCHES: Final[dict[str, tuple[str, ...]]] = {
    "when main has commits of its own": (
        _FORWARD + "what_only_main_has_is_dropped_when_asked_for",
        _FORWARD + "who_opened_main_before_is_told_what_was_dropped",
    ),
    "before the branch's first snapshot": (_FORWARD + "a_branch_behind_a_gap",),
    "expiry and orphans": (_BRANCHES + "a_branch_keeps_what_main_lets_go",),
    "a branch of a tag whose snapshot": (
        _BRANCHES + "a_branch_of_a_tag_whose_snapshot_has_expired",
    ),
    "tables with index.*": (_WRITING + "tables_that_are_tied_to_others_have_no_branches",),
}

EXPIRY: Final[dict[str, tuple[str, ...]]] = {
    "order (ExpireSnapshotsImpl)": (
        _WRITING + "a_snapshot_goes_before_its_files",
        _EXPIRY + "_races.py::test_stopped_at_any_delete",
    ),
    "on each commit": (_WRITING + "a_commit_expires_nothing",),
    "readers without a consumer": (_EXPIRY + "_readers.py::test_a_reader_with_a_lease_reads_on",),
    "a consumer, tag or hint that cannot be read": (
        _NOTES + "all_goes_on_and_the_file_is_named",
        _NOTES + "orphans_are_not_looked_for_while_a_tag_cannot_be_read",
    ),
    "tags on the way": (
        _EXPIRY + "_races.py::test_a_tag_of_a_snapshot_that_expires_meanwhile_is_taken_back",
    ),
    "changelog.num-retained.*": (_EXPIRY + ".py::test_tables_that_keep_their_changelog_longer",),
    "a snapshot whose successor's time is ahead": (
        _EXPIRY + "_choice.py::test_a_time_ahead_of_now_is_no_age",
        _OPERATIONS + "handle/test_wrong_clocks.py::test_one_writer_ahead_does_not_stop_expiry",
    ),
    "a tag's time to live": (
        _OPERATIONS + "history/test_tag_times.py::test_a_tag_lives_as_long_wherever_it_expires",
        _OPERATIONS
        + "history/test_tag_times.py::test_a_tag_of_another_client_notes_no_zone_and_goes_by_local_time",
    ),
    "automatic tags": (
        _OPERATIONS
        + "history/test_automatic_tags.py::test_a_maintainer_makes_them_before_snapshots_expire_and_without_expiry",
        _OPERATIONS + "history/test_automatic_tags.py::test_periods",
    ),
    "rows that are too old": (
        _OPERATIONS + "compaction/test_record_expiry.py::test_rows_that_are_too_old_go",
        _OPERATIONS
        + "compaction/test_record_expiry.py::test_a_row_that_is_too_old_gives_way_to_no_older_one",
        _OPERATIONS
        + "compaction/test_record_expiry.py::test_runs_without_the_oldest_keep_what_is_too_old",
    ),
    "the same next to partial-update": (
        _OPERATIONS
        + "compaction/test_record_expiry.py::test_rows_that_are_merged_when_they_are_read_cannot_go",
    ),
    "files of a deleted tag": (_EXPIRY + ".py::test_tags_keep_their_rows_until_they_are_deleted",),
}

READING_CHANGES: Final[dict[str, tuple[str, ...]]] = {
    "order of a range": (
        _CHANGES + "order_is_snapshot_then_partition_then_key",
        _CHANGES + "order_does_not_depend_on_the_number_of_tasks",
    ),
    "records of a key in one commit": (
        _ANSWERS + "records_of_a_commit_in_several_files_are_in_one_order",
        _JAVA + "records_of_one_commit_in_several_changelog_files",
    ),
    "which snapshots have a changelog": (
        _CHANGES + "a_new_producer_changes_nothing_of_what_is_past",
    ),
    "from-snapshot with an expired snapshot": (_FOLLOW + "what_has_expired_is_named",),
    "of a table that was dropped and made again": (
        _ANOTHER + "a_follower_never_goes_on_in_another_table",
        _STREAM + "a_checkpoint_of_a_table_that_was_made_again_is_refused",
    ),
    "from-snapshot with a snapshot that is yet to come": (
        _ANOTHER + "a_start_that_is_yet_to_come_is_no_progress",
    ),
    "progress of a consumer within the first": (
        _FOLLOW + "rows_come_again_when_their_phase_was_not_over",
        _OPERATIONS
        + "queries/test_stream_progress.py::test_a_first_full_read_keeps_its_snapshot_however_long_it_takes",
    ),
    "a consumer that starts with changes": (
        _FOLLOW + "a_start_with_latest_is_remembered_before_anything_came",
    ),
    "without a changelog producer": (
        _CHANGES + "row_kinds_come_with_the_rows",
        "tests/spark/reading/test_stream_reading.py::test_without_the_changelog_new_values_come",
    ),
}

NOT_DONE: Final[dict[str, tuple[str, ...]]] = {
    "the functions rbm32": (_NOT_DONE + "bitmap_and_sketch_functions",),
    "with postponed buckets": (
        "tests/postponed/test_tables.py::test_what_does_not_fit_is_refused_by_name",
        "tests/postponed/test_tables.py::test_records_as_they_were_written_are_no_changes",
    ),
    "several tasks of one commit": (_NOT_DONE + "tasks_of_dynamic_buckets",),
    "tables with a key that lacks partition columns": (
        _NOT_DONE + "tables_whose_key_lacks_the_partition_are_not_made",
        _JAVA_TABLES + "what_needs_a_key_with_its_partition_is_refused_by_name",
        _DYNAMIC + "keys_without_the_partition_are_scanned_and_nothing_else",
    ),
    "in append tables": (
        _JAVA_TABLES + "append_tables_refuse_by_name_what_needs_a_key",
        "tests/append/test_writing.py::test_an_option_without_effect_is_refused_by_its_name",
    ),
    "writing file indexes of other kinds": (
        "tests/file_indexes/test_keeping.py::test_an_option_that_does_not_fit_is_refused_by_name",
    ),
    "columns of type ARRAY that order records": (
        "tests/widetable/test_rejections.py::test_records_are_ordered_by_what_has_an_order",
    ),
    "tag.automatic-creation": (_NOT_DONE + "tags_of_batches",),
    "views, materialized tables": (_NOT_DONE + "views_and_tables_of_other_kinds",),
    "storages but local disks": (
        _NOT_DONE + "other_storages",
        _STORAGE + "test_locate.py::test_other_storages_are_refused_by_name",
    ),
    "writing ORC and Avro": (_NOT_DONE + "writing_orc_and_avro",),
}

SHOWN_BY: Final = (
    ANSWERS | FAULTS_OF_JAVA | WRITING | DAMAGE | BRANCHES | EXPIRY | READING_CHANGES | NOT_DONE
)
