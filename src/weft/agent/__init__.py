"""The supervisor of a job on one machine: its workers, their epochs, and the state they leave.

Nothing here imports torch: the agent starts at once, and it outlives the training processes.
"""
