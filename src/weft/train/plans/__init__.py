"""Execution plans inside of a unit: torch's own parts cut the model, a program says where.

`hooks.py` is what a program offers, `applied.py` applies a plan to a freshly built model, and
`computed.py` is the model that such a program gets back.
"""
