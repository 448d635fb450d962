"""A job that runs: rounds, and chunks beside one another."""
