"""Loops over plain arrays, and the glue that turns Arrow columns into plain arrays and back."""
