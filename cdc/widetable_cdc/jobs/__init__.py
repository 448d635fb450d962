"""A job: its configuration, its rounds, what it says of itself."""
