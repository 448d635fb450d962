"""Columns of a target that are no columns of the source: computed ones, and those that say where a row came from."""
