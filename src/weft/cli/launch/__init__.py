"""`weft launch`: a script with several workers on this machine, in torchrun's place.

It needs no world: the command is the job itself, and the job ends with it.
"""
