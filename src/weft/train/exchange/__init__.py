"""Checkpoints in the formats of others, there and back, so that nobody is locked in.

Export puts the parts of every tensor together and writes safetensors or DCP, with all that is no
tensor in `weft.json` beside them. Import reads the same, and what plain torch has written, and
leaves a vault that a job resumes from.
"""
