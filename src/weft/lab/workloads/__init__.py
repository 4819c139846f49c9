"""What is to be run: where a workload comes from, what it holds, and whether it can be served.

Nothing here simulates. Whatever is wrong with a workload is said before a minute is spent on it.
"""
