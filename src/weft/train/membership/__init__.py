"""A training process among others: its line to the agent, its epochs, and state for newcomers.

`protocol.py` decides purely and is held against the agent's side by random histories; the others
carry out what it says. Only here is the agent spoken to about epochs.
"""
