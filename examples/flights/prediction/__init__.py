"""The last step: whether a flight is late, of features as they were known and of leaked ones."""
