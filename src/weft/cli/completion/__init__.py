"""`weft completion`: what a shell offers after a TAB.

`command` prints the script for a shell, `candidates` knows the names. Whoever presses TAB gets an
answer at once or none: nothing here waits long, prints, or fails aloud.
"""
