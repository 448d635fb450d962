"""The workload `wide_columns`: its sizes, who runs its tasks, and what it prints."""
