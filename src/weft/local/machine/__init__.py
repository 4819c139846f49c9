"""This machine: its GPUs or slots, who else uses them, and the room on its disk."""
