"""Workloads of change data capture."""
