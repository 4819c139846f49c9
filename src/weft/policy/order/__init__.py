"""Who goes first."""
