"""Changes of a round become rows of a target, and are committed."""
