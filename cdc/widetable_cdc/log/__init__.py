"""Bytes of PostgreSQL's logical replication become changes of Arrow columns. Pure."""
