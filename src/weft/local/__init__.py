"""The local world: one machine, its GPUs and the people who share it, decided by the same brain.

`machine` is what there is, `store` what is on record, `course` what follows from both, `hands` who
does it, and `daemon` the process in which they meet.
"""
