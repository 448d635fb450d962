"""Runnable examples of widetable; each folder is one program."""
