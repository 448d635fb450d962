"""Debezium's connectors, run inside this process: the engine's batches become rounds of whole transactions."""
