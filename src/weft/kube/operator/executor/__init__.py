"""Carries out what was decided: one job's actions at a time, many jobs at once.

Only this room makes and deletes pods. What it writes carries the version that it was decided on; a
conflict or a failure is never repeated here, but leads to another look at the job.
"""
