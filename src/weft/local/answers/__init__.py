"""What users of the machine are answered through the API: jobs, logs, nodes and health.

Who asks comes from the kernel. Nothing here decides or writes but wishes (submit, cancel, retry).
"""
