"""Tenancy: quota, borrowing and reclaim over a tree of queues."""
