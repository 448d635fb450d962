"""Benchmarks: never part of the tests. `make bench` runs them all; `python -m benchmarks NAME ...` some."""
