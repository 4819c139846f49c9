"""Process groups of torch that are built beside each other and cut off when a member is lost.

Only `backend.py` chooses a backend by the device; whoever needs another one adds it there.
"""
