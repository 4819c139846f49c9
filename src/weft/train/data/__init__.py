"""Samples for one worker: which, in which order, and read by whom.

Who computes what follows from numbers that all members share (`order.py`, `split.py`), so nobody is
asked. These two must never change for a run that has begun: every sample counts once.
"""
