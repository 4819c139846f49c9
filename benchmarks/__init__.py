"""Measurements of Weft against its own budgets and against independent oracles."""
