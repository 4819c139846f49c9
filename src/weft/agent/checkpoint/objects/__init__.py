"""Checkpoints in an object store: no renames, no locks, but objects that appear whole or not."""
