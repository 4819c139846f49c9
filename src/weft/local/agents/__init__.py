"""Agents of this machine: started as their owners, watched, spoken to and ended.

What lies in a user's folder was perhaps written by that user: it is read with care, and nothing is
done there with the daemon's own rights. `bootstrap.py` is run as a file by itself and imports
nothing of Weft. Agents outlive the daemon, so the next version must still understand them.
"""
