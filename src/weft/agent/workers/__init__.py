"""Worker processes on one machine: started, placed, watched, signalled and reaped.

It knows processes, devices, processors and files, and nothing of epochs. A worker is known by its
number, and its end is told once.
"""
