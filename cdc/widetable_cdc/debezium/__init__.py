"""Debezium's JSON becomes the same changes."""
