"""Wide primary-key tables in Apache Paimon's format, filled by many writers, each with its own columns."""
