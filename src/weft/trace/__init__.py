"""Workloads and clusters: readers for public traces and for a cluster's own logs, and a generator.

Everything that enters from a file enters here, once, and leaves as frozen values of the model.
What a file says wrongly is named with its row and a remedy; it is never mended on the way.
"""
