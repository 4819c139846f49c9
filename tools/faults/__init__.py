"""Seeded faults that the tests of a package must notice: `python -m tools.faults`."""
