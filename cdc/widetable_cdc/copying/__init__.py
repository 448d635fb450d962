"""The full copy of a table, chunk by chunk, beside its changes."""
