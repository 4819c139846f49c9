"""Connections of the agent: the server that workers, drivers and followers speak to.

It also keeps the control store, by which the members of an epoch find each other. What stands in
the agent's folder for drivers (`orders.py`) is read by other versions of Weft.
"""
