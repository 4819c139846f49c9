"""State that outlives the process that computed it: in shared memory, and on disk.

A trainer copies its tensors into a slot in shared memory and seals it; the agent writes sealed
slots to a vault, also after the trainer has died. Both hold raw bytes and JSON, and nothing that is
read from them is ever executed. What is written stays readable: a golden checkpoint in the tests
holds every version to that.
"""
