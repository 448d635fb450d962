"""What a job asks a PostgreSQL server for: checks, slot, log, catalog, rows."""
