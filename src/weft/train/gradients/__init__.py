"""Gradients of one step, summed over all members, with the control word that travels along.

Each kind of summation keeps the promise of its level (`level.py`): the same mathematics, or the
same bits, at any width. A change here is held against plain PyTorch by the parity tests.
"""
