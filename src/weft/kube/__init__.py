"""The Kubernetes world: watches in, writes out, and the very same brain between them.

Decide, record, act. A decision stands in a job's status before any pod of it exists, so whoever
comes after a crash finds either the whole decision or none of it.
"""
