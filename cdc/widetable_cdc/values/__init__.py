"""Types of a database, and its texts as Arrow columns. Pure."""
